"""ProxyClasses: settings of proxies, and whether they can be used."""
