"""Types and names. This package does no I/O and imports nothing else of tsoperator."""
