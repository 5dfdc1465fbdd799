"""Tests of the operator's report on the objects that it serves."""
