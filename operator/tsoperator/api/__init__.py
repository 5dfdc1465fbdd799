"""Types and names; no I/O; imports nothing else of tsoperator."""
