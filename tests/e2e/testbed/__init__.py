"""A real one-node Kubernetes cluster and tailnet on one Linux machine, for the end-to-end tests."""
