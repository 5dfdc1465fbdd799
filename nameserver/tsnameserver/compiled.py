"""The compiled UDP loop, where it was built (nameserver/udploop): it answers as `answer` does, or leaves it to that."""

try:
    from tsnameserver._udploop import Index, Loop
except ImportError:
    COMPILED = False

    class Index:  # type: ignore[no-redef]  # stands for the type; there are none
        """Finds the compiled records of a zone by name."""

    class Loop:  # type: ignore[no-redef]
        """Answers what comes to one socket."""

else:
    COMPILED = True

__all__ = ["COMPILED", "Index", "Loop"]
