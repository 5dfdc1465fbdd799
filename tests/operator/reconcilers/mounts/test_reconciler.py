"""The Pods that the operator touches after a change of a Secret or ConfigMap, in virtual time."""

import asyncio
from typing import Any, NamedTuple

import pytest
from tsoperator.api.names import PARENT_SERVICE
from tsoperator.api.objects import CONFIGMAP, POD, SECRET, Key, Object, key_of
from tsoperator.reconcilers.mounts.reconciler import mounts
from tsoperator.runtime.manager import Comparison
from tsoperator.runtime.ownership import Owner

from tests.support.objects import OPERATOR_NAMESPACE, obj, slim_secret
from tests.support.shown import Shown
from tests.support.virtual_time import in_virtual_time

OWNER, OTHER = (Owner(PARENT_SERVICE, Key("default", name)) for name in ("db", "web"))


def secret(hostname: str, owner: Owner = OWNER) -> Object:
    return slim_secret("ts-db-0", {"cap-107.hujson": {"Hostname": hostname}}, owner.labels)


def pod(uid: str = "new", **metadata: Any) -> Object:
    return obj(POD, Key(OPERATOR_NAMESPACE, "ts-db-0"), uid=uid, labels=OWNER.labels, **metadata)


BEFORE, AFTER = secret("before"), secret("after")


class Comes(NamedTuple):
    """A change of a Secret, and whether the operator touches a Pod that changes later.

    The Secret is *before* and becomes *now*. The Pod changes *after* as many seconds; it was *old* until then, or is
    new if *old* is None. *is_concerned* tells whether the operator touches the Pod.
    """

    is_concerned: bool
    after: float = 89.9
    old: Object | None = None
    before: Object | None = BEFORE
    now: Object = AFTER


COMES = {
    "a new Pod": Comes(True),
    "a new Pod in the place of another": Comes(True, old=pod("old")),
    "a Pod that is edited": Comes(False, old=pod(resourceVersion="0")),
    "a Pod whose kubelet has mounted the change": Comes(False, after=90.0),
    "a Pod with a new Secret": Comes(False, before=None),
    "a Pod with a Secret that changes nothing to read": Comes(False, before=AFTER),
    "a Pod with the Secret of somebody else": Comes(False, before=secret("before", OTHER), now=secret("after", OTHER)),
}


@pytest.mark.parametrize("case", COMES.values(), ids=COMES)
@in_virtual_time
async def test_a_pod_that_appears_within_90_seconds_after_a_change_of_its_secret_is_touched(case: Comes) -> None:
    cache = Shown(*([case.before] if case.before else ()))
    mapper = mounts(cache).watches[POD]
    assert isinstance(mapper, Comparison)
    cache.show(case.now)
    await asyncio.sleep(case.after)
    assert [*mapper.keys(case.old, pod())] == ([key_of(pod())] if case.is_concerned else [])
    assert [*mapper.keys(pod(), None)] == []


@pytest.mark.parametrize("resource", [SECRET, CONFIGMAP, POD])
def test_no_pod_is_touched_when_the_operator_starts(resource: Any) -> None:
    assert [*mounts(Shown()).watches[resource](pod())] == []
