"""The operator's own device in the tailnet, which the proxy image registers."""
