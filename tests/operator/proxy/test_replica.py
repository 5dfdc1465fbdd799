"""A proxy of several replicas, each with a Secret, an auth key and a device of its own."""

from dataclasses import replace

import pytest
from tsoperator.api.objects import SECRET, Key, Object
from tsoperator.proxy.login import Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import connected_networks
from tsoperator.proxy.replica import Replica, replicas_error
from tsoperator.proxy.statefulset import standalone_statefulset
from tsoperator.proxy.tailscaled import ProxyConfig, config_files
from tsoperator.proxy.workload import plan_proxy, proxy_key, proxy_login, replica_devices
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import DeleteDevice, Deletion, Plan

from tests.support.objects import (
    children_of,
    deleted_devices,
    deletions_of,
    headless,
    patches_of,
    pod,
    settings,
    slim_secret,
    stored,
    texts,
)

SETTINGS = settings()
OWNER = Owner("connector", Key("", "router"))
CONFIG = ProxyConfig("router-connector", SETTINGS.control_url, routes=("10.40.0.0/14",))
NAME = "ts-router-24567"
"""A name that the API server generated for the Go operator; its end looks like the number of a replica."""

KEY = Key("tailscale", NAME)
PROXY = Proxy(OWNER, "1234-UID", KEY, connected_networks(), CONFIG, ("tag:k8s",), "staging")


def proxy(replicas: int, prefix: str = "ts-prod") -> Proxy:
    return replace(PROXY, replica_count=replicas, hostname_prefix=prefix)


def config(ordinal: int) -> ProxyConfig:
    return replace(CONFIG, hostname=f"ts-prod-{ordinal}")


def secret(ordinal: int, auth_key: str = "", **data: str) -> Object:
    return slim_secret(f"{NAME}-{ordinal}", {**config_files(config(ordinal), auth_key), **data}, OWNER.labels)


def statefulset(replicas: int, *, generation: int = 2, observed: int = 2, pods: int = 2, updated: int = 2) -> Object:
    counts = {"observedGeneration": observed, "replicas": pods, "updatedReplicas": updated}
    return stored({**standalone_statefulset(proxy(replicas), SETTINGS), "status": counts}, generation=generation)


def running(replicas: int, made: Object | None = None) -> Children:
    """Return the children of a proxy whose *replicas* have logged in."""
    numbers = range(replicas)
    return Children(
        services=[headless(OWNER, "1234-UID", NAME)],
        statefulsets=[made or statefulset(replicas, pods=replicas, updated=replicas)],
        secrets=[secret(number, device_id=f"n{number}") for number in numbers],
        pods=[pod(f"{NAME}-{number}", f"P{number}") for number in numbers],
    )


def plan(replicas: int, children: Children, **auth_keys: str) -> Plan:
    """Return the plan with these auth keys; ``r0`` is the key of the first replica, ``r1`` that of the second."""
    keys = Keys({int(name[1:]): key for name, key in auth_keys.items()})
    return plan_proxy(proxy(replicas), children, SETTINGS, keys)


def test_each_replica_gets_a_secret_with_its_hostname_and_its_key_before_any_pod_runs() -> None:
    children = children_of(plan(2, Children(), r0="first", r1="second"))
    assert [obj["kind"] for obj in children] == ["Service", "Secret", "Secret", "StatefulSet"]
    assert [obj["metadata"]["name"] for obj in children] == [NAME, f"{NAME}-0", f"{NAME}-1", NAME]
    files = [config_files(config(0), "first"), config_files(config(1), "second")]
    assert [texts(obj) for obj in children[1:3]] == files


def test_a_proxy_that_is_right_is_left_alone() -> None:
    made = plan(3, running(3))
    assert [obj["kind"] for obj in children_of(made)] == ["Service", "StatefulSet"]
    assert (len(made.steps), made.requeue_after) == (2, None)


def test_a_new_config_is_patched_into_every_secret() -> None:
    other = replace(proxy(2), config=replace(CONFIG, routes=()))
    patches = patches_of(plan_proxy(other, running(2), SETTINGS))
    assert [patch.key.name for patch in patches] == [f"{NAME}-0", f"{NAME}-1"]
    assert {patch.about for patch in patches} == {"the configuration of the proxy"}
    files = [config_files(replace(config(number), routes=())) for number in (0, 1)]
    assert [texts(patch.body) for patch in patches] == files


def test_a_replica_more_gets_a_secret_and_the_others_keep_theirs() -> None:
    made = plan(3, running(2), r2="third")
    assert [obj["metadata"]["name"] for obj in children_of(made)] == [NAME, f"{NAME}-2", NAME]
    assert texts(children_of(made)[1]) == config_files(config(2), "third")
    assert not patches_of(made)


def test_each_replica_that_has_no_key_and_no_device_needs_a_key() -> None:
    children = Children(secrets=[secret(0, device_id="n0"), secret(1), secret(2, auth_key="unused")])
    login = proxy_login(proxy(4), children)
    assert login.in_need == {1, 3}
    assert login.devices == {0: "n0"}
    assert (login.owner, login.parent_uid, login.replicas) == (OWNER, "1234-UID", proxy(4).replicas)


def test_the_name_of_a_proxy_is_found_from_any_child_that_is_left() -> None:
    for children in (Children(secrets=[secret(1), secret(2)]), Children(services=running(0).services)):
        assert proxy_key(OWNER, "1234-UID", children, SETTINGS) == KEY


def test_each_replica_has_one_secret_named_like_its_pod() -> None:
    first, second = (Key("tailscale", f"{NAME}-{number}") for number in range(2))
    assert proxy(2).replicas == [
        Replica(0, first, first, "ts-prod-0", ("tag:k8s",)),
        Replica(1, second, second, "ts-prod-1", ("tag:k8s",)),
    ]


SHRINKING: dict[str, tuple[list[Object], list[str]]] = {
    "as before": ([statefulset(2)], ["0", "1"]),
    "not seen": ([statefulset(1, generation=3, observed=2, pods=2)], ["0", "1"]),
    "not seen, Pod gone": ([statefulset(1, generation=3, observed=2, pods=1, updated=1)], ["0"]),
    "Pod to come": ([statefulset(2, pods=1, updated=1)], ["0"]),
    "Pod counted": ([statefulset(1, pods=2, updated=1)], ["0"]),
    "Pod there": ([statefulset(1, pods=1, updated=1)], ["0", "1"]),
    "others old": ([statefulset(1, pods=1, updated=0)], ["0"]),
    "deleted": ([], []),
}


@pytest.mark.parametrize(("there", "left"), SHRINKING.values(), ids=SHRINKING)
def test_a_surplus_secret_and_device_stay_while_a_pod_has_them(there: list[Object], left: list[str]) -> None:
    pods = [pod(f"{NAME}-{number}", number) for number in left]
    made = plan(1, replace(running(2), statefulsets=there, pods=pods))
    assert (deletions_of(made), deleted_devices(made), made.way_out) == ([], [], "")
    assert made.requeue_after
    assert children_of(made)[-1]["spec"]["replicas"] == 1


@pytest.mark.parametrize("left", [0, 1])
def test_a_surplus_secret_goes_with_its_device_when_no_pod_has_it(left: int) -> None:
    children = replace(running(2, statefulset(left, pods=left, updated=left)), pods=running(left).pods)
    made = plan(left, children)
    gone = range(left, 2)
    assert made.steps[2:] == [
        *(DeleteDevice("staging", OWNER, f"n{number}", url=SETTINGS.control_url) for number in gone),
        *(Deletion(SECRET, children.secrets[number], unchanged=True) for number in gone),
    ]
    assert (made.release, made.requeue_after) == ("", None)
    assert f"Secret {' and '.join(f'tailscale/{NAME}-{number}' for number in gone)} by hand" in made.way_out


def test_a_secret_that_belongs_to_no_replica_is_not_deleted() -> None:
    strangers = [slim_secret(name, {"device_id": "n9"}, OWNER.labels) for name in (NAME, f"{NAME}-x", "ts-router-9-7")]
    children = running(1)
    made = plan(1, replace(children, secrets=[*children.secrets, *strangers]))
    assert (deleted_devices(made), deletions_of(made), made.requeue_after) == ([], [], None)


def test_devices_are_listed_in_the_order_of_their_replicas_once_they_have_joined() -> None:
    secrets = [secret(10, device_id="n10"), secret(1), secret(2, device_id="n2"), secret(0, device_id="n0")]
    assert [device.id for device in replica_devices(proxy(11), Children(secrets=secrets))] == ["n0", "n2", "n10"]
    assert [device.id for device in replica_devices(proxy(2), Children(secrets=secrets))] == ["n0"]


def test_a_proxy_has_at_most_a_hundred_replicas() -> None:
    errors = [replicas_error(count) for count in (0, 100, 101)]
    assert errors == ["", "", "spec.replicas must be at most 100, not 101: lower it"]
