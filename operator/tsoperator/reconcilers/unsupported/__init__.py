"""Kinds that are installed, and that this version does nothing for."""
