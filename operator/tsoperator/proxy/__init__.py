"""A proxy: its objects in the cluster, the configuration that its image reads, and the reports that it writes."""
