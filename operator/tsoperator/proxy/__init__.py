"""A proxy: what its image is told, and what it reports."""
