"""A ProxyGroup as the Services that it serves see it.

This package has their places, ports and EndpointSlices, and the group's ConfigMap.
"""
