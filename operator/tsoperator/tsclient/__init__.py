"""A client of the API of a tailnet's control server, Tailscale's or Headscale's."""
