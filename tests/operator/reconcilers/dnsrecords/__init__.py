"""Tests of the reconciler of the records."""
