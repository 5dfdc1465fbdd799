"""The names of the tailnet in the cluster: the nameserver, its records, and the cluster's own DNS."""
