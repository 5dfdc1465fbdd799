"""The endpoints of a Service, which are in its EndpointSlices."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tsoperator.api.names import LABEL_SERVICE_NAME
from tsoperator.api.objects import Key, Object, key_of, labels
from tsoperator.runtime.ownership import is_marked

BY_SERVICE: Final = "service"
"""The index of EndpointSlices by their Service. Its values are `str(Key)`."""

_HAS_READY: Final = "hasReadyEndpoint"
_KEPT: Final = ("name", "namespace", "uid", "resourceVersion")


def by_service(endpoint_slice: Object) -> Iterable[str]:
    """Return the values for the index `BY_SERVICE`: the key of the Service of *endpoint_slice*, or nothing."""
    service = service_of(endpoint_slice)
    return (str(service),) if service else ()


def service_of(endpoint_slice: Object) -> Key | None:
    """Return the key of the Service whose endpoints are in *endpoint_slice*; None if it names no Service."""
    name = labels(endpoint_slice).get(LABEL_SERVICE_NAME)
    return Key(key_of(endpoint_slice).namespace, name) if name else None


def slim_slice(namespace: str) -> Callable[[Object], Object]:
    """Return the function that makes EndpointSlices slim for the cache.

    It keeps an EndpointSlice in *namespace* whole if an operator made the EndpointSlice or its Service. Of any other
    EndpointSlice, it keeps only the name of the Service, and whether there is a ready endpoint.
    """

    def slim(endpoint_slice: Object) -> Object:
        metadata = endpoint_slice["metadata"]
        if metadata["namespace"] == namespace and is_marked(endpoint_slice):
            whole = {name: value for name, value in metadata.items() if name != "managedFields"}
            return {**endpoint_slice, "metadata": whole}
        kept = {name: metadata[name] for name in _KEPT if name in metadata}
        if service := labels(endpoint_slice).get(LABEL_SERVICE_NAME):
            kept["labels"] = {LABEL_SERVICE_NAME: service}
        return {
            "apiVersion": endpoint_slice["apiVersion"],
            "kind": endpoint_slice["kind"],
            "metadata": kept,
            _HAS_READY: any(ready_addresses([endpoint_slice])),
        }

    return slim


def has_ready_endpoint(slices: Iterable[Object]) -> bool:
    """Tell whether any of *slices*, slim or whole, has a ready endpoint."""
    return any(each[_HAS_READY] if _HAS_READY in each else any(ready_addresses([each])) for each in slices)


def changed_service(old: Object | None, new: Object | None) -> Key | None:
    """Return the key of the Service of a changed EndpointSlice; None if the change doesn't matter.

    The change matters if the EndpointSlice has a ready endpoint only before or only after the change. *old* and *new*
    are the EndpointSlice at these two times. If somebody has created it, *old* is None. If somebody has deleted it,
    *new* is None.
    """
    was, now = (each is not None and has_ready_endpoint([each]) for each in (old, new))
    there = new or old
    return service_of(there) if there and was is not now else None


def ready_addresses(slices: Iterable[Object]) -> Iterator[str]:
    """Yield the addresses of the ready endpoints in *slices*, which must not be slim."""
    for endpoint_slice in slices:
        for endpoint in endpoint_slice.get("endpoints") or ():
            if _is_ready(endpoint.get("conditions") or {}):
                yield from endpoint.get("addresses") or ()


def _is_ready(conditions: Object) -> bool:
    """Tell whether an endpoint is ready according to its *conditions*. A missing condition doesn't make it unready."""
    return (
        conditions.get("ready") is not False
        and conditions.get("serving") is not False
        and conditions.get("terminating") is not True
    )
