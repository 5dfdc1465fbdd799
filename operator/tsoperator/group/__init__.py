"""The parts of a ProxyGroup that belong to one object: its place, ports and EndpointSlices."""
