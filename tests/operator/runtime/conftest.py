"""The fixture `ground`: a simulated API server with a parent, for which tests carry out and report plans."""

from tests.operator.runtime.ground import ground

__all__ = ["ground"]
