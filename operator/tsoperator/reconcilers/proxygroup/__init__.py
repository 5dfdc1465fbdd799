"""ProxyGroups: proxies that share their work."""
