"""Tests of the reconciler of Ingresses."""
