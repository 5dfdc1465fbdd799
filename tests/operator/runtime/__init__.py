"""Tests of the machinery of controllers."""
