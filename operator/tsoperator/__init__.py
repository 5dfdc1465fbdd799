"""A Kubernetes operator for tailnets."""
