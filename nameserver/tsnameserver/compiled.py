"""Imports the compiled UDP loop (nameserver/udploop), if it was built.

The loop leaves some queries to Python's `answer`.
"""

try:
    from tsnameserver._udploop import Index, Loop
except ImportError:
    COMPILED = False

    class Index:  # type: ignore[no-redef]  # a placeholder for the type; it has no instances
        """Finds the compiled records of a zone by name."""

    class Loop:  # type: ignore[no-redef]
        """Answers the packets that arrive at one socket."""

else:
    COMPILED = True

__all__ = ["COMPILED", "Index", "Loop"]
