"""Recording of sessions and requests: recorders in the tailnet get the output of sessions, and an event a request."""
