"""Waits until a function of a test succeeds. All end-to-end tests wait with this module."""

from collections.abc import Callable
from typing import TypeVar

from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.processes import wait_until

T = TypeVar("T")


def eventually(look: Callable[[], T], what: str, seconds: float = 120) -> T:
    """Call *look* again and again until its result is true, and return the result.

    A BedError or an AssertionError of *look* counts as a false result. *what* describes the result in the final error.

    Raises: AssertionError: *seconds* have passed. It has the last error or result of *look*.
    """
    found: list[T] = []
    said: list[str] = [""]

    def holds() -> bool:
        try:
            found[:] = [look()]
        except (BedError, AssertionError) as error:
            found.clear()
            said[0] = f"{type(error).__name__}: {error}"
            return False
        said[0] = f"last seen: {found[0]!r}"
        return bool(found[0])

    if not wait_until(holds, seconds):
        raise AssertionError(f"not within {seconds:.0f} s: {what}\n{said[0][-3000:]}")
    return found[0]
