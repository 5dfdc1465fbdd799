"""Tests of the reconciler of Recorders."""
