"""A ProxyGroup as the Services and Ingresses that it serves see it.

This package has the places, ports and EndpointSlices of such Services, and the ConfigMap of the group.
"""
