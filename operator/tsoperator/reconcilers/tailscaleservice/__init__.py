"""Tailscale Services: the names and addresses under which ProxyGroups expose Ingresses and Services."""
