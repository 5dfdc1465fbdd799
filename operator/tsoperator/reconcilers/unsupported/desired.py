"""The kinds that this version does nothing for."""

from collections.abc import Mapping
from typing import Final

from tsoperator.api.names import CONDITION_PEERRELAY_READY, CONDITION_PROXYGROUPPOLICY_READY, CONDITION_RECORDER_READY
from tsoperator.api.objects import PEERRELAY, PROXYGROUPPOLICY, RECORDER, Resource

CONDITIONS: Final[Mapping[Resource, str]] = {
    PEERRELAY: CONDITION_PEERRELAY_READY,
    PROXYGROUPPOLICY: CONDITION_PROXYGROUPPOLICY_READY,
    RECORDER: CONDITION_RECORDER_READY,
}
"""By kind, the condition that says that nothing is done for an object."""
