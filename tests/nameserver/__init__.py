"""Tests of the nameserver."""
