"""The ground on which plans are carried out and reported."""

from tests.operator.runtime.ground import ground

__all__ = ["ground"]
