"""Services that leave the cluster for the tailnet, or that the tailnet reaches, each by a proxy of its own."""
