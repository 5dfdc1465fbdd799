"""Tests of the API server proxy."""
