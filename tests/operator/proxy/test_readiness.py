"""The proxies that serve: every Pod is ready and has a device."""

import pytest
from tsoperator.api.objects import STATEFULSET, Key, Object, key_of
from tsoperator.proxy.readiness import is_rolled_out, is_serving, ready_replicas, secret_keys, wanted_replicas

from tests.support.objects import obj, slim_secret

KEY = Key("tailscale", "ts-web-1a2b3")


def statefulset(replicas: int | None, ready: int | None) -> Object:
    spec = {} if replicas is None else {"replicas": replicas}
    status = {} if ready is None else {"readyReplicas": ready}
    return {**obj(STATEFULSET, KEY), "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("replicas", "ready", "devices", "serves"),
    [
        (1, 1, ["n1"], True),
        (None, 1, ["n1"], True),
        (1, None, ["n1"], False),
        (1, 0, ["n1"], False),
        (1, 1, [], False),
        (1, 1, [""], False),
        (2, 1, ["n1", "n2"], False),
        (2, 2, ["n1"], False),
        (2, 2, ["n1", ""], False),
        (2, 2, ["n1", "n2"], True),
    ],
)
def test_a_proxy_serves_if_each_of_its_pods_is_ready_and_has_a_device(
    replicas: int | None, ready: int | None, devices: list[str], *, serves: bool
) -> None:
    named = [slim_secret(f"{KEY.name}-{number}", {"device_id": device}) for number, device in enumerate(devices)]
    secrets = {key_of(each): each for each in named}
    assert is_serving(statefulset(replicas, ready), secrets.get) is serves


@pytest.mark.parametrize(
    ("replicas", "updated", "observed", "rolled_out"),
    [(2, 2, 3, True), (2, 1, 3, False), (2, 2, 2, False), (3, 3, 3, False)],
)
def test_a_statefulset_is_rolled_out_once_it_has_only_pods_of_its_present_template(
    replicas: int, updated: int, observed: int, *, rolled_out: bool
) -> None:
    live = obj(STATEFULSET, KEY, generation=3)
    status = {"observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated}
    assert is_rolled_out({**live, "spec": {"replicas": replicas}, "status": status}, 2) is rolled_out


def test_a_statefulset_without_a_number_of_replicas_has_one_replica() -> None:
    empty = obj(STATEFULSET, KEY)
    assert (wanted_replicas(empty), ready_replicas(empty)) == (1, 0)
    assert secret_keys(statefulset(2, 0)) == [Key("tailscale", "ts-web-1a2b3-0"), Key("tailscale", "ts-web-1a2b3-1")]
