"""Tests of the reconciler of DNSConfigs."""
