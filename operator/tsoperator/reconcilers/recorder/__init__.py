"""Recorders: programs that keep recordings of sessions which go through the tailnet."""
