"""Services that leave the cluster: egress to a tailnet device by name or address."""
