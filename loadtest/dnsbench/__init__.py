"""The nameserver compared with its peers: CPU a query, latency, loss and memory, in one run."""
