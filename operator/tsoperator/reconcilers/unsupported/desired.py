"""The kinds that this version doesn't support."""

from collections.abc import Mapping
from typing import Final

from tsoperator.api.names import CONDITION_PEERRELAY_READY, CONDITION_RECORDER_READY
from tsoperator.api.objects import PEERRELAY, RECORDER, Resource

CONDITIONS: Final[Mapping[Resource, str]] = {
    PEERRELAY: CONDITION_PEERRELAY_READY,
    RECORDER: CONDITION_RECORDER_READY,
}
"""The condition that reports that the operator does nothing for an object, by kind."""
