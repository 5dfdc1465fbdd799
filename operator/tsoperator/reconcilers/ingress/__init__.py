"""Ingresses of our class: HTTPS on the tailnet for Services of the cluster."""
