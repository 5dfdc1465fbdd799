"""The kinds that this version doesn't support."""

from collections.abc import Mapping
from typing import Final

from tsoperator.api.names import CONDITION_RECORDER_READY
from tsoperator.api.objects import RECORDER, Resource

CONDITIONS: Final[Mapping[Resource, str]] = {
    RECORDER: CONDITION_RECORDER_READY,
}
"""The condition that reports that the operator does nothing for an object, by kind."""
