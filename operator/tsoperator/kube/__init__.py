"""The only code that imports the package ``kubernetes``."""
