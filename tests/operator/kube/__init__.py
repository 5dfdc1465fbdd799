"""Tests of tsoperator.kube."""
