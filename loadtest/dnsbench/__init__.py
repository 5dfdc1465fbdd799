"""A benchmark that compares the nameserver with its peers: CPU per query, latency, loss and memory."""
