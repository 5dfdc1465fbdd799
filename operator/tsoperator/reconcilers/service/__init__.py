"""Services that lead to the tailnet (egress) or are exposed to it, each by a proxy of its own or by a ProxyGroup."""
