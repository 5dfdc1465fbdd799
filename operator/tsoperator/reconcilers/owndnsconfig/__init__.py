"""The DNSConfig that the operator makes by itself, if its settings say so and the cluster has none."""
