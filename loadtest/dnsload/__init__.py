"""A load generator for DNS servers, for people."""
