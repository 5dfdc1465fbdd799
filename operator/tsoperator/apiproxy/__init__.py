"""The API server proxy, a program of its own: users and devices of the tailnet reach the Kubernetes API through it."""
