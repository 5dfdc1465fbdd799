"""Which proxies serve."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import STATEFULSET, Key, Object, key_of
from tsoperator.desired.readiness import is_serving, ready_replicas, secret_keys, wanted_replicas

from tests.support.objects import obj, slim_secret

KEY = Key("tailscale", "ts-web-1a2b3")


def statefulset(replicas: int | None, ready: int | None) -> Object:
    spec = {} if replicas is None else {"replicas": replicas}
    status = {} if ready is None else {"readyReplicas": ready}
    return {**obj(STATEFULSET, KEY), "spec": spec, "status": status}


class Case(NamedTuple):
    replicas: int | None
    ready: int | None
    devices: list[str]
    serves: bool


@pytest.mark.parametrize(
    "case",
    [
        Case(1, 1, ["n1"], True),
        Case(None, 1, ["n1"], True),
        Case(1, None, ["n1"], False),
        Case(1, 0, ["n1"], False),
        Case(1, 1, [], False),
        Case(1, 1, [""], False),
        Case(2, 1, ["n1", "n2"], False),
        Case(2, 2, ["n1"], False),
        Case(2, 2, ["n1", ""], False),
        Case(2, 2, ["n1", "n2"], True),
    ],
)
def test_a_proxy_serves_if_each_of_its_pods_is_ready_and_has_a_device(case: Case) -> None:
    named = [(f"{KEY.name}-{number}", device) for number, device in enumerate(case.devices)]
    secrets = {key_of(each): each for each in (slim_secret(name, {"device_id": device}) for name, device in named)}
    assert is_serving(statefulset(case.replicas, case.ready), secrets.get) is case.serves


def test_a_statefulset_without_a_number_has_one_replica() -> None:
    empty = obj(STATEFULSET, KEY)
    assert (wanted_replicas(empty), ready_replicas(empty)) == (1, 0)
    assert secret_keys(statefulset(2, 0)) == [Key("tailscale", "ts-web-1a2b3-0"), Key("tailscale", "ts-web-1a2b3-1")]
