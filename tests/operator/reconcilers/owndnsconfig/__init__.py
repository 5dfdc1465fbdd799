"""Tests of the DNSConfig that the operator makes by itself."""
