"""One folder a kind: reconciler.py looks, acts and reports; desired.py decides."""
