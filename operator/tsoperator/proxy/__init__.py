"""A proxy: the configuration that its image reads, and the reports that it writes."""
