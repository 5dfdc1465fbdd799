"""A load generator for DNS servers, with reports for people to read."""
