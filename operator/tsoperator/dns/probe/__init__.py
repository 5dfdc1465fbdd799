"""Questions to the nameserver and to the cluster's DNS, and the verdict on their answers."""
