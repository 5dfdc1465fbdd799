"""A benchmark that compares the nameserver with other DNS servers: CPU per query, latency, lost queries and memory."""
