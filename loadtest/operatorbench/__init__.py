"""The operator beside the Go one on a real API server: `make bench-operator ARGS=--help`."""
