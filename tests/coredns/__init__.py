"""Tests of the files for the cluster's DNS."""
