"""The queries by which the operator tests the nameserver and the cluster's DNS, and the verdicts on their answers."""
