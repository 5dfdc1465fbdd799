"""Which changes of a configuration concern a proxy, and which Pods read the changed object."""

from typing import NamedTuple

import pytest
from tsoperator.api.names import PARENT_SERVICE
from tsoperator.api.objects import CONFIGMAP, Key, Object, key_of
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.entries import slim_configmap
from tsoperator.reconcilers.mounts.desired import is_news, readers
from tsoperator.runtime.ownership import Owner

from tests.support.objects import OPERATOR_NAMESPACE, egress_config, obj, pod, slim_secret

OWNER = Owner(PARENT_SERVICE, Key("default", "db"))


def secret(hostname: str = "db", auth_key: str = "", **data: str) -> Object:
    return slim_secret("ts-db-0", {"cap-107.hujson": {"Hostname": hostname, "AuthKey": auth_key}, **data})


def entries(*names: str, **metadata: str) -> Object:
    configmap = egress_config("foo", *names)
    return slim_configmap({**configmap, "metadata": {**configmap["metadata"], **metadata}})


class Change(NamedTuple):
    """A Secret or ConfigMap before and after a change, and whether proxies have something new to read."""

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
def test_a_change_is_news_only_if_it_changes_what_a_proxy_reads(change: Change) -> None:
    assert is_news(change.old, change.new) is change.is_news


OTHER = obj(CONFIGMAP, Key(OPERATOR_NAMESPACE, "dnsrecords"))
ELSEWHERE = obj(CONFIGMAP, Key("default", "foo-egress-config"))


@pytest.mark.parametrize(
    ("changed", "owner", "names", "read"),
    [
        (slim_secret("ts-db-0", {}), OWNER, ["ts-db-0", "ts-db-1"], ["ts-db-0"]),
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
