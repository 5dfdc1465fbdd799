"""ProxyClass: how proxies run."""
