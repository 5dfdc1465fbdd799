"""Tests of tailnets as the operator sees them."""
