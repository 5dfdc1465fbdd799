"""DNSConfigs: the nameserver in the cluster, and the configuration of the cluster's DNS."""
