"""Tests of the simulated cluster and of the simulated control server."""
