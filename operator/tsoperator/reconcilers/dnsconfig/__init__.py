"""DNSConfig: the nameserver in the cluster."""
