"""Tests of the recording of sessions and requests."""
