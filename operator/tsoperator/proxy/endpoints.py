"""The endpoints of a Service, which are in its EndpointSlices."""

from collections.abc import Iterable, Iterator
from typing import Final

from tsoperator.api.names import LABEL_SERVICE_NAME
from tsoperator.api.objects import Object, labels

BY_SERVICE: Final = "service"
"""The index of EndpointSlices by the name of their Service."""


def by_service(endpoint_slice: Object) -> Iterable[str]:
    """Index EndpointSlices by Service."""
    name = labels(endpoint_slice).get(LABEL_SERVICE_NAME)
    return (name,) if name else ()


def ready_addresses(slices: Iterable[Object]) -> Iterator[str]:
    """Yield the addresses of the ready endpoints in *slices*."""
    for endpoint_slice in slices:
        for endpoint in endpoint_slice.get("endpoints") or ():
            if _is_ready(endpoint.get("conditions") or {}):
                yield from endpoint.get("addresses") or ()


def _is_ready(conditions: Object) -> bool:
    """Tell whether an endpoint is ready according to its *conditions*. A condition that is missing counts as good."""
    return (
        conditions.get("ready") is not False
        and conditions.get("serving") is not False
        and conditions.get("terminating") is not True
    )
