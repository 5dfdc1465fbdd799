"""Tests of the operator's own kinds in their version v1alpha1."""
