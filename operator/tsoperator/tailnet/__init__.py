"""The operator's view of one tailnet: its control server, its devices, and auth keys for new devices."""
