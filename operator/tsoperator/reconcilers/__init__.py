"""One folder for each kind: ask.py parses an object, reconciler.py gathers facts, and plan.py decides what to do."""
