"""Recording of sessions and requests: sends the output of sessions, and an event for each request, to recorders."""
