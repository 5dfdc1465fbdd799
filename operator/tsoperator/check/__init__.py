"""The commands that a person runs besides the operator itself, and the format of its log."""
