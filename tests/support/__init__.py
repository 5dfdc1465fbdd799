"""Functions, fixtures and objects that several test modules share."""
