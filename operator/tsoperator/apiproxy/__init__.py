"""The API server proxy, a program of its own: callers from the tailnet reach the Kubernetes API as who they are."""
