"""Tests of the readiness gate of egress Pods."""
