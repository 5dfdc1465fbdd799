"""ProxyGroupPolicies: the ProxyGroups that a namespace may use."""
