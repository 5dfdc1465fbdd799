"""The API server proxy, a program of its own: users and devices of the tailnet reach the Kubernetes API through it.

It tells the API server who they are, or lets them do so themselves."""
