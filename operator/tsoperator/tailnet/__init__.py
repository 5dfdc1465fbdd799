"""One tailnet as the operator sees it: its control server, its devices, and auth keys for new devices."""
