"""Tests of the reconciler of Services."""
