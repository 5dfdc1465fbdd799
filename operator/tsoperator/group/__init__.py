"""ProxyGroups as the objects that they serve see them: places, their ports and EndpointSlices, and the ConfigMap."""
