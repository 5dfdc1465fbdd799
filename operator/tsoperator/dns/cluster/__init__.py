"""The configuration of the cluster's own DNS (CoreDNS, kube-dns or OpenShift's), and our stub domain in it."""
