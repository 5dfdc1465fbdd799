"""What the cluster's own DNS reads (CoreDNS, kube-dns or OpenShift's), and edits of our stub domain in it."""
