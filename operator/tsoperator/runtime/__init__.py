"""The machinery of controllers; knows no kind."""
