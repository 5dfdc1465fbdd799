"""The share of a ProxyGroup that an object has: its place, ports and EndpointSlices there."""
