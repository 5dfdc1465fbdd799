"""End-to-end tests on a real cluster and a real tailnet."""
