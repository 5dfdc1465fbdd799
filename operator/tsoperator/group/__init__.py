"""A ProxyGroup as its Services see it: their places, ports and EndpointSlices, and its ConfigMap."""
