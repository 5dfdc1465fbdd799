"""Kinds that are installed, but that this version does nothing for."""
