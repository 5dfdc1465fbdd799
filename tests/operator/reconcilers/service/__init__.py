"""Tests of the operator's reconcilers."""
