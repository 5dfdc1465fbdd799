"""Tests of the load generator, of the simulated cluster and of the benchmarks."""
