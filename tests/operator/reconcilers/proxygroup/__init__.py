"""Tests of tsoperator.reconcilers.proxygroup."""
