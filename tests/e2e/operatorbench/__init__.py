"""The operator beside the Go one on a real API server: `python -m tests.e2e.operatorbench --help`."""
