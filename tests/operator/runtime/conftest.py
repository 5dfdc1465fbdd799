"""The fixture `ground`, with which tests carry out and report plans."""

from tests.operator.runtime.ground import ground

__all__ = ["ground"]
