"""One tailnet as the operator sees it: its control server, the devices in it, auth keys for new ones."""
