"""What there is of a proxy, looked up in the cache."""

from tsoperator.api.objects import POD, SECRET, SERVICE, SERVICEMONITOR, STATEFULSET
from tsoperator.desired.children import BY_METRICS_OWNER, BY_OWNER, Owner
from tsoperator.desired.proxy import Children
from tsoperator.runtime.cache import Cache


def children_of(cache: Cache, owner: Owner) -> Children:
    """Return the children of *owner*."""
    return Children(
        services=cache.indexed(SERVICE, BY_OWNER, str(owner)),
        statefulsets=cache.indexed(STATEFULSET, BY_OWNER, str(owner)),
        secrets=cache.indexed(SECRET, BY_OWNER, str(owner)),
        pods=cache.indexed(POD, BY_OWNER, str(owner)),
        metrics=[
            obj
            for resource in (SERVICE, SERVICEMONITOR)
            for obj in cache.indexed(resource, BY_METRICS_OWNER, str(owner))
        ],
    )
