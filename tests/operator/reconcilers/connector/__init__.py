"""Tests of the reconciler of Connectors."""
