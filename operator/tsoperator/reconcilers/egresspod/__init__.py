"""Opens the readiness gate of the Pods of egress ProxyGroups."""
