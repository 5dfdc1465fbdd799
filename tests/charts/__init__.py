"""Tests of the chart, of the static manifests made from it, and of the CRDs. They need Helm and an API server."""
