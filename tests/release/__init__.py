"""Tests of the programs that make a release."""
