"""The custom resources of tailscale.com/v1alpha1, one module a kind."""
