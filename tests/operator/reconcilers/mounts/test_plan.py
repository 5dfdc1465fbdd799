"""The plan for a touch: which changes of a configuration matter to a proxy, which Pods read it, and when to touch."""

from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from tsoperator.api.names import ANNOTATION_CONFIG_CHANGED, PARENT_SERVICE
from tsoperator.api.objects import CONFIGMAP, POD, Key, Object, key_of
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.entries import slim_configmap
from tsoperator.reconcilers.mounts.plan import Observed, is_news, plan, readers
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Patch, Plan

from tests.support.objects import OPERATOR_NAMESPACE, egress_config, obj, pod, slim_secret

OWNER = Owner(PARENT_SERVICE, Key("default", "db"))


def secret(hostname: str = "db", auth_key: str = "", **data: str) -> Object:
    return slim_secret("ts-db-0", {"cap-107.hujson": {"Hostname": hostname, "AuthKey": auth_key}, **data})


def entries(*names: str, **metadata: str) -> Object:
    configmap = egress_config("foo", *names)
    return slim_configmap({**configmap, "metadata": {**configmap["metadata"], **metadata}})


class Change(NamedTuple):
    """A Secret or ConfigMap before and after a change, and whether the change is relevant for proxies."""

    old: Object | None
    new: Object
    is_news: bool


@pytest.mark.parametrize(
    "change",
    [
        Change(secret(), secret("other"), True),
        Change(secret(), secret(**{"serve-config": "{}"}), True),
        Change(secret(auth_key="used"), secret(), False),
        Change(secret(auth_key="refused"), secret(auth_key="next"), True),
        Change(secret(), secret(device_id="n1"), False),
        Change(None, secret(), True),
        Change(entries("a"), entries("a", "b"), True),
        Change(entries("a"), entries("a", resourceVersion="2"), False),
        Change(None, entries("a"), True),
    ],
)
def test_a_change_of_a_configuration_is_relevant_only_if_a_proxy_reads_the_changed_part(change: Change) -> None:
    assert is_news(change.old, change.new) is change.is_news


OTHER = obj(CONFIGMAP, Key(OPERATOR_NAMESPACE, "dnsrecords"))
ELSEWHERE = obj(CONFIGMAP, Key("default", "foo-egress-config"))


@pytest.mark.parametrize(
    ("changed", "owner", "names", "read"),
    [
        (slim_secret("ts-db-0", {}), OWNER, ["ts-db-0", "ts-db-1"], ["ts-db-0"]),
        (slim_secret("op-config", {}), Owner("operator", Key("tailscale", "op")), ["op-device-0"], ["op-device-0"]),
        (slim_secret("foo-1-config", {}), group_owner("foo"), ["foo-0", "foo-1"], ["foo-1"]),
        (slim_secret("rec-auth-1", {}), Owner("recorder", Key("", "rec")), ["rec-0", "rec-1"], ["rec-1"]),
        (slim_secret("ts-db-0", {}), OWNER, ["mine"], []),
        (entries("a"), group_owner("foo"), ["foo-0", "foo-1"], ["foo-0", "foo-1"]),
        (OTHER, group_owner("foo"), ["foo-0"], []),
        (ELSEWHERE, group_owner("foo"), ["foo-0"], []),
        (entries("a"), OWNER, ["ts-db-0"], []),
    ],
)
def test_a_pod_reads_its_own_secret_and_the_configmap_of_its_group(
    changed: Object, owner: Owner, names: list[str], read: list[str]
) -> None:
    pods = [pod(name, name) for name in names]
    assert [key_of(each).name for each in readers(changed, owner, pods)] == read


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUNNING, LEAVING = pod("ts-db-0", "1"), obj(POD, Key("default", "ts-db-0"), deletionTimestamp="2026-01-02T03:04:00Z")
TOUCHED = Patch(
    POD,
    key_of(RUNNING),
    {"metadata": {"uid": "1", "annotations": {ANNOTATION_CONFIG_CHANGED: "2026-01-02T03:04:05+00:00"}}},
)


@pytest.mark.parametrize(
    ("found", "last", "wanted"),
    [
        (RUNNING, None, Plan(steps=[TOUCHED])),
        (RUNNING, 99.5, Plan(requeue_after=1.5)),
        (RUNNING, 98.001, Plan(requeue_after=0.001)),
        (RUNNING, 98.0000001, Plan(steps=[TOUCHED])),
        (LEAVING, None, Plan()),
        (LEAVING, 99.5, Plan()),
        ({}, None, Plan()),
    ],
)
def test_a_pod_is_touched_at_most_once_in_two_seconds(found: Object, last: float | None, wanted: Plan) -> None:
    assert plan(found, Observed(last, 100.0, NOW)) == wanted
