"""The mode of a Service: it is served by a proxy of its own, a ProxyGroup, or nothing."""

from enum import Enum, auto

from tsoperator.api.names import PROXY_GROUP
from tsoperator.api.objects import Object, annotations, is_deleting
from tsoperator.reconcilers.service import egress, exposure
from tsoperator.settings import Settings


class Mode(Enum):
    """The mode of a Service, by its annotations and its class."""

    NOTHING = auto()
    PROXY = auto()
    """A proxy of its own."""
    GROUP = auto()
    """A ProxyGroup leads its clients to the tailnet."""
    UNSUPPORTED = auto()
    """A ProxyGroup is to expose it to the tailnet, which this version can't do."""


def mode_of(service: Object, settings: Settings) -> Mode:
    """Return what *service* asks for."""
    exposed = exposure.asks(service, settings)
    if is_deleting(service) or not (exposed or egress.asks(service)):
        return Mode.NOTHING
    if not annotations(service).get(PROXY_GROUP):
        return Mode.PROXY
    return Mode.UNSUPPORTED if exposed else Mode.GROUP
