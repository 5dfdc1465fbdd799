"""One folder for each kind: its reconciler.py looks, acts and reports, and its desired.py decides."""
