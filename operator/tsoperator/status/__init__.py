"""The operator's report on the objects that it serves: a row for each object, as JSON and as a page for a browser."""
