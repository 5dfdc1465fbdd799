"""A simulated cluster and control server, small enough to run anywhere."""
