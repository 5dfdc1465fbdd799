"""One folder for each kind: reconciler.py looks, acts and reports; desired.py decides."""
