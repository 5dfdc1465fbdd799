"""The kind that makes kubelets mount the changed configuration of proxies at once."""
