"""Tests of the operator's API: its kinds, and the parts of objects that it reads and writes."""
