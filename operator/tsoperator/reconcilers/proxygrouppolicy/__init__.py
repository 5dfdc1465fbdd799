"""ProxyGroupPolicies: the ProxyGroups that a namespace is allowed to use."""
