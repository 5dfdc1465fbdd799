"""The machinery of controllers. Nothing here depends on the kind of an object."""
