"""A benchmark that compares our nameserver with other DNS servers: CPU time per query, latency, loss and memory."""
