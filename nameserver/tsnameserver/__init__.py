"""The nameserver of tailnet names."""
