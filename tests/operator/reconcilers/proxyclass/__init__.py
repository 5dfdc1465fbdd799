"""Tests of the ProxyClass reconciler."""
