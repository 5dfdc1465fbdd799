"""Tests of the reconciler of ProxyGroups."""
