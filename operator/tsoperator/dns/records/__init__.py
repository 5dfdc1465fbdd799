"""The records that the nameserver serves."""
