"""Tests of what is installed: the chart, the manifests made of it, and the CRDs; they want Helm and an API server."""
