"""Tests of the ProxyGroupPolicy reconciler."""
