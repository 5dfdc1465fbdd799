"""A simulated cluster and control server, which run on any machine as Python programs."""
