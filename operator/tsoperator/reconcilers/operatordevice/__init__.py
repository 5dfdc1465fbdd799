"""The operator's own device in the tailnet: its registration, and the API server proxy that it serves."""
