"""A comparison of our operator with the Go operator on a real API server: `make bench-operator ARGS=--help`."""
