"""Connectors: subnet routers, exit nodes and app connectors."""
