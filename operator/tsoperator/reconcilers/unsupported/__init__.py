"""Kinds whose CRDs are installed, but that this version doesn't support."""
