"""Tests of the builders that reconcilers share."""
