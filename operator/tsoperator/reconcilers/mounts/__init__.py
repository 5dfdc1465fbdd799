"""Pods of proxies whose mounted configuration has changed."""
