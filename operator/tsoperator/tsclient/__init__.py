"""A client of the tailnet's control plane, Tailscale's or Headscale's."""
