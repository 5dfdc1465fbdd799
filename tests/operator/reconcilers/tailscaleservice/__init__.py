"""Tests of `tsoperator.reconcilers.tailscaleservice`."""
