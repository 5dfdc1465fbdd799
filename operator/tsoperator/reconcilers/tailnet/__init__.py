"""Tailnets: other tailnets than the operator's own, which Connectors and ProxyGroups can join."""
