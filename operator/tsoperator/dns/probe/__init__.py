"""Questions to the nameserver and to the cluster's DNS, and the verdicts on their answers."""
