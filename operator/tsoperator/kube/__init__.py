"""The only code that imports kubernetes."""
