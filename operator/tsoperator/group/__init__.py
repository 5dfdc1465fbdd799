"""The facts about ProxyGroups that matter to the Services and Ingresses that they serve.

This package has the places, ports and EndpointSlices of such Services, and the ConfigMap of a group.
"""
