"""The device and the user that a session or a request comes from, as recordings and events describe them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SourceDevice:
    """The device that a session or a request comes from, and the user of a device without *tags*.

    *name* is the full name of the device without the final dot, and *stable_id* its ID, which never changes. *owner_id*
    is the ID of the user to whom the device belongs. *login* is the user's login name, and *profile_id* the ID of the
    user's profile.
    """

    name: str = ""
    stable_id: str = ""
    tags: Sequence[str] = ()
    owner_id: int = 0
    profile_id: int = 0
    login: str = ""


UNKNOWN: Final = SourceDevice()
"""The source of a request whose device isn't known."""
