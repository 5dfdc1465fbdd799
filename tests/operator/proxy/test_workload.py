"""The plans that make the children of a proxy right, and those that remove them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tsoperator.api.device import Device
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import SECRET, SERVICE, SERVICEMONITOR, STATEFULSET, Key, Object, key_of
from tsoperator.api.rules import child_name
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.proxy.devices import Destination, DevicePlan, TailnetView
from tsoperator.proxy.login import Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.proxypod import egress_to_name, served_ingress
from tsoperator.proxy.replica import Replica
from tsoperator.proxy.statefulset import standalone_statefulset
from tsoperator.proxy.tailscaled import ProxyConfig, config_files
from tsoperator.proxy.workload import (
    is_removed,
    plan_proxy,
    plan_removal,
    proxy_device,
    proxy_devices,
    proxy_key,
    proxy_login,
    replica_devices,
)
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import (
    Child,
    Creation,
    DeleteDevice,
    Deletion,
    FreeName,
    Note,
    Outline,
    Plan,
    SetTags,
    Step,
    TakeName,
)

from tests.support.objects import (
    children_of,
    deleted_devices,
    deleting,
    deletions_of,
    headless,
    patches_of,
    pod,
    settings,
    slim_secret,
    stored,
    texts,
)
from tests.support.proxies import container_of

SETTINGS = settings()
OWNER = Owner("svc", Key("default", "db"))
CONFIG = ProxyConfig("default-db", SETTINGS.control_url)
NAME = "ts-db-24567"
"""A name that the API server generated for the Go operator. Its end looks like the ordinal of a replica."""

KEY = Key("tailscale", NAME)
POD = egress_to_name("db.tail1234.ts.net.")
PROXY = Proxy(OWNER, "1234-UID", KEY, POD, CONFIG, ("tag:k8s",), magic_dns_name="db.tail1234.ts.net")


def service(name: str = NAME) -> Object:
    return headless(OWNER, PROXY.parent_uid, name, PROXY.magic_dns_name)


def statefulset(name: str = NAME, parent_uid: str = PROXY.parent_uid) -> Object:
    return stored(standalone_statefulset(replace(PROXY, key=Key("tailscale", name), parent_uid=parent_uid), SETTINGS))


def secret(name: str = f"{NAME}-0", auth_key: str = "", **data: str) -> Object:
    return slim_secret(name, {**config_files(CONFIG, auth_key), **data}, OWNER.labels)


def running() -> Children:
    """Return the children of a proxy that has logged in."""
    return Children([service()], [statefulset()], [secret(device_id="n1")], [pod(f"{NAME}-0", "P")])


def test_a_new_proxy_gets_its_children_in_the_order_in_which_they_need_each_other() -> None:
    key = proxy_key(OWNER, PROXY.parent_uid, Children(), SETTINGS)
    plan = plan_proxy(replace(PROXY, key=key), Children(), SETTINGS, Keys({0: "new-authkey"}))
    made = {obj["kind"]: key_of(obj) for obj in children_of(plan)}
    assert key == Key("tailscale", child_name("db", PROXY.parent_uid))
    assert [*made.items()] == [("Service", key), ("Secret", Key(key.namespace, f"{key.name}-0")), ("StatefulSet", key)]
    new = children_of(plan)[1]
    assert new["metadata"] == {"namespace": key.namespace, "name": f"{key.name}-0", "labels": OWNER.labels}
    assert (new["type"], texts(new)) == ("Opaque", config_files(CONFIG, "new-authkey"))
    assert (plan.hold, plan_proxy(PROXY, running(), SETTINGS).hold) == (FINALIZER, FINALIZER)


def test_all_children_of_a_proxy_get_the_name_that_its_existing_children_have() -> None:
    others = Children([service()], [statefulset("ts-db-other")], [secret("ts-db-third-0")])
    alone = [Children(services=[service()]), Children(statefulsets=[statefulset()])]
    alone += [Children(secrets=[secret(f"{NAME}-{ordinal}") for ordinal in left]) for left in ([0], [1, 2])]
    found = [proxy_key(OWNER, PROXY.parent_uid, children, SETTINGS) for children in [others, *alone]]
    assert found == [KEY] * 5


def test_a_changed_config_does_not_change_the_statefulset() -> None:
    renamed = replace(PROXY, config=replace(CONFIG, hostname="other"))
    same = plan_proxy(PROXY, running(), SETTINGS)
    assert children_of(plan_proxy(renamed, running(), SETTINGS)) == children_of(same)


def test_a_replica_needs_an_auth_key_if_it_has_no_usable_key_or_a_write_of_its_config_would_remove_the_key() -> None:
    refused = {"device_id": "n1", "reissue_authkey": "refused"}
    found = [
        secret(f"{NAME}-0"),
        secret(f"{NAME}-1", auth_key="unused"),
        secret(f"{NAME}-2", device_id="n1"),
        slim_secret(f"{NAME}-3", config_files(replace(CONFIG, hostname="old"), "unused")),
        secret(f"{NAME}-4", auth_key="refused", **refused),
        secret("ts-db-other-5", device_id="n1"),
    ]
    assert proxy_login(replace(PROXY, replica_count=6), Children(secrets=found)).in_need == {0, 3, 4, 5}


WEB = replace(
    PROXY,
    owner=Owner("ingress", Key("default", "db")),
    pod=served_ingress(forward_cluster_traffic=False),
    magic_dns_name="",
    proxy_class=ProxyClassSpec.model_validate({"metrics": {"enable": True}}),
)
LISTENING = [f"$(POD_IP):{port}" for port in (9001, 9002)], [f"[$(POD_IP)]:{port}" for port in (9001, 9002)]


def with_family(*families: str) -> Object:
    return {**service(), "spec": {**service()["spec"], "ipFamilies": [*families]}}


def listening(*, ipv6: bool) -> Object:
    children = replace(running(), statefulsets=[], services=[with_family("IPv6" if ipv6 else "IPv4")])
    (made,) = [obj for obj in children_of(plan_proxy(WEB, children, SETTINGS)) if obj["kind"] == "StatefulSet"]
    return stored(made)


def placed(address: str) -> Object:
    return {**pod(f"{NAME}-0", "P"), "status": {"podIP": address}}


@pytest.mark.parametrize(
    ("there", "ipv6"),
    [
        (Children(), None),
        (Children([service()]), False),
        (Children([with_family("IPv4")]), False),
        (Children([with_family("IPv6")]), True),
        (Children([with_family("IPv4", "IPv6")]), False),
        (Children([with_family("IPv6", "IPv4")]), True),
        (Children([with_family("IPv6")], pods=[placed("192.0.2.1")]), False),
        (Children(pods=[placed("2001:db8::1")]), True),
        (Children([with_family("IPv6")], pods=[pod(f"{NAME}-0", "P")]), True),
        (Children([with_family("IPv6")], [listening(ipv6=False)]), False),
        (Children([with_family("IPv4")], [listening(ipv6=True)]), True),
        (Children([with_family("IPv6")], [statefulset()]), True),
        (Children([], [listening(ipv6=False)], pods=[placed("2001:db8::1")]), True),
    ],
)
def test_a_proxy_listens_at_the_address_of_its_pod_once_the_family_of_the_address_is_known(
    there: Children, ipv6: bool | None
) -> None:
    made = [obj for obj in children_of(plan_proxy(WEB, there, SETTINGS)) if obj["kind"] == "StatefulSet"]
    env = [container_of(each)["env"] for each in made]
    found = [[var["value"] for var in each if var["name"].endswith("_ADDR_PORT")] for each in env]
    assert found == ([] if ipv6 is None else [LISTENING[ipv6]])


def test_a_proxy_that_listens_at_no_address_does_not_wait_for_an_address() -> None:
    made = plan_proxy(replace(WEB, proxy_class=ProxyClassSpec()), Children(), SETTINGS)
    assert [obj["kind"] for obj in children_of(made)] == ["Service", "Secret", "StatefulSet"]


def measured() -> Children:
    service = stored(children_of(plan_proxy(WEB, running(), SETTINGS))[1])
    monitor = {**service, "apiVersion": SERVICEMONITOR.api_version, "kind": SERVICEMONITOR.kind}
    return replace(running(), metrics=[service, monitor])


@pytest.mark.parametrize("proxy", [replace(WEB, proxy_class=None), replace(WEB, pod=POD)])
def test_the_metrics_service_and_its_monitor_are_removed_when_metrics_are_turned_off(proxy: Proxy) -> None:
    service, monitor = measured().metrics
    plan = plan_proxy(proxy, measured(), SETTINGS)
    assert deletions_of(plan) == [Deletion(SERVICE, service), Deletion(SERVICEMONITOR, monitor)]
    assert len(children_of(plan)) == 2
    assert deletions_of(plan_proxy(WEB, measured(), SETTINGS)) == [Deletion(SERVICEMONITOR, monitor)]
    removed = deletions_of(plan_removal(OWNER, replace(measured(), statefulsets=[])))
    assert [deletion.resource for deletion in removed] == [SERVICE, SERVICE, SERVICEMONITOR, SECRET]


@pytest.mark.parametrize("leaving", [False, True])
def test_the_plan_for_a_recreated_parent_deletes_the_old_statefulset_before_anything_else(*, leaving: bool) -> None:
    old = statefulset(parent_uid="old-UID")
    plan = plan_proxy(PROXY, replace(running(), statefulsets=[deleting(old) if leaving else old]), SETTINGS)
    assert plan.steps == ([] if leaving else [Deletion(STATEFULSET, old, "Foreground")])
    assert (plan.release, bool(plan.requeue_after)) == ("", True)


def test_our_finalizer_is_removed_from_the_service_of_a_proxy_if_the_service_is_being_deleted() -> None:
    leaving = deleting(service())
    plan = plan_proxy(PROXY, replace(running(), services=[leaving]), SETTINGS)
    assert deletions_of(plan) == [Deletion(SERVICE, leaving, release="tailscale.com/dns-records-reconciler")]


def left(owners: Sequence[Object] = (), overdue: float | None = None) -> Children:
    """Return the children of a proxy without its StatefulSet, while a Pod with the owners *owners* still exists.

    The end of the Pod's grace period was *overdue* seconds ago; None if it isn't over.
    """
    there = pod(f"{NAME}-0", "P")
    there["metadata"]["ownerReferences"] = [*owners]
    late = {} if overdue is None else {"P": overdue}
    return replace(running(), statefulsets=[], pods=[there], overdue=late)


OF_SET: list[Object] = [{"kind": "StatefulSet", "name": NAME}]
REST: list[Step] = [
    Deletion(SERVICE, service(), release="tailscale.com/dns-records-reconciler"),
    DeleteDevice("staging", OWNER, "n1", url=SETTINGS.control_url),
    Deletion(SECRET, running().secrets[0], unchanged=True),
]
REMOVALS: dict[str, tuple[Children, Sequence[Step], list[str]]] = {
    "Pods run": (running(), [Deletion(STATEFULSET, statefulset())], []),
    "Pods end": (replace(running(), statefulsets=[deleting(statefulset())]), [], []),
    "a Pod is left": (left(OF_SET), [], []),
    "a Pod is late": (left(OF_SET, 59.0), [], []),
    "a Pod is a minute late": (left(OF_SET, 60.0), REST, ["PodNotWaitedFor"]),
    "a Pod of nobody": (left(), REST, []),
    "no Pod": (replace(running(), statefulsets=[], pods=[]), REST, []),
}


@pytest.mark.parametrize(("children", "steps", "events"), REMOVALS.values(), ids=REMOVALS)
def test_the_removal_of_a_proxy_deletes_pods_then_the_device_then_the_rest_and_releases_the_parent(
    children: Children, steps: Sequence[Step], events: list[str]
) -> None:
    plan = plan_removal(OWNER, children, "staging")
    assert (plan.steps, [note.reason for note in plan.notes]) == (steps, events)
    assert (plan.release, plan.requeue_after is None) == ((FINALIZER, True) if steps == REST else ("", False))


def test_the_removal_of_a_proxy_does_not_wait_for_a_pod_whose_grace_period_ended_a_minute_ago() -> None:
    found = [left(OF_SET, 60.0), *(Children(pods=left(OF_SET).pods, overdue={"P": late}) for late in (59.0, 60.0))]
    assert [is_removed(each) for each in found] == [False, False, True]


def test_the_advice_for_a_stuck_removal_of_a_proxy_names_the_secrets_that_have_a_device() -> None:
    plan = plan_removal(OWNER, Children(secrets=[secret(device_id="n1"), secret(f"{NAME}-1", device_id="n2")]))
    assert f"delete Secret tailscale/{NAME}-0 and tailscale/{NAME}-1 by hand" in plan.way_out
    none = [plan_removal(OWNER, each) for each in (Children(), Children([service()], [], [secret(auth_key="unused")]))]
    assert [(deleted_devices(each), each.release, each.way_out) for each in none] == [([], FINALIZER, "")] * 2


def test_the_https_endpoint_in_a_secret_is_ignored_unless_the_pod_of_the_same_name_wrote_it() -> None:
    data = {"device_id": "n1", "device_fqdn": "db.tail1234.ts.net.", "tailscale_capver": "110", "pod_uid": "P"}
    found = secret(https_endpoint="no-https", **data)
    pods = [pod("other", "P")], [pod("other", "Q"), pod(f"{NAME}-0", "P")]
    devices = [proxy_device(Children(secrets=[found], pods=each)) for each in pods]
    assert [device and device.serves_no_https for device in devices] == [False, True]
    assert proxy_device(Children()) is None


DEVICE = Device("n1", "default-db.tail1234.ts.net", "default-db", tags=("tag:old",))
TAILNET = TailnetView("staging", devices={"n1": DEVICE})
FREE_NAME = FreeName("staging", OWNER, "default-db", ("tag:k8s",))
SET_TAGS = SetTags("staging", OWNER, "n1", ("tag:k8s",))


def test_the_name_for_a_replica_without_a_secret_is_freed_but_not_that_for_a_replica_without_a_device() -> None:
    children = Children(secrets=[secret(f"{NAME}-1", device_id="n1"), secret(f"{NAME}-2")])
    made = proxy_devices(replace(PROXY, replica_count=3), children, TAILNET, settings(take_over_names=True))
    assert made == DevicePlan(before=[FREE_NAME], after=[SET_TAGS], findings=[])


@pytest.mark.parametrize(("count", "prefix", "shares"), [(1, "", False), (2, "", True), (2, "default-db", False)])
def test_replicas_without_a_hostname_prefix_share_their_hostname(count: int, prefix: str, *, shares: bool) -> None:
    proxy = replace(PROXY, replica_count=count, hostname_prefix=prefix)
    hostname = proxy.replicas[0].hostname
    numbered = replace(DEVICE, name=f"{hostname}-1.tail1234.ts.net", hostname=hostname, tags=("tag:k8s",))
    view = TailnetView(devices={"n1": numbered})
    made = proxy_devices(proxy, running(), view, settings(take_over_names=True))
    assert [isinstance(step, TakeName) for step in made.after] == ([] if shares else [True])


def test_a_plan_frees_names_of_devices_before_it_makes_the_pods_and_sets_tags_at_its_end() -> None:
    devices = DevicePlan(before=[FREE_NAME], after=[SET_TAGS])
    plain, plan = (plan_proxy(WEB, measured(), SETTINGS, devices=each) for each in (DevicePlan(), devices))
    pods = plain.steps.index(Child(children_of(plain)[-1]))
    assert plan.steps == [*plain.steps[:pods], FREE_NAME, *plain.steps[pods:], SET_TAGS]


AWAITED = Keys(awaited=frozenset({1}), pending=ValueError("waiting"))


def test_only_the_statefulset_and_the_secret_of_a_replica_wait_for_the_auth_key_of_the_replica() -> None:
    several = replace(PROXY, replica_count=2)
    whole, plan = (plan_proxy(several, running(), SETTINGS, keys) for keys in (Keys({1: "key"}), AWAITED))
    held = [each for each in whole.steps if each not in plan.steps]
    assert [type(each) for each in held] == [Creation, Child]
    assert [key_of(each).name for each in children_of(whole)[-2:]] == [f"{NAME}-1", NAME]
    assert (len(plan.steps), plan.error) == (len(whole.steps) - 2, AWAITED.pending)


def test_the_secret_of_a_replica_that_awaits_another_auth_key_stays_although_other_children_change() -> None:
    there = replace(running(), secrets=[*running().secrets, secret(f"{NAME}-1", auth_key="refused")])
    renamed = replace(PROXY, replica_count=2, config=replace(CONFIG, hostname="other"))
    plan = plan_proxy(renamed, there, SETTINGS, AWAITED)
    assert [each.key.name for each in patches_of(plan)] == [f"{NAME}-0"]
    assert children_of(plan)[-1]["spec"]["replicas"] == 2


@pytest.mark.parametrize(("fqdn", "reasons"), [("", ["TargetNotFound"]), ("default-db.tail1234.ts.net.", [])])
def test_a_proxy_that_starts_again_and_again_without_a_destination_is_a_finding(fqdn: str, reasons: list[str]) -> None:
    restarted = {**pod(f"{NAME}-0", "P"), "status": {"containerStatuses": [{"restartCount": 1}]}}
    children = Children(secrets=[secret(device_id="n1", device_fqdn=fqdn)], pods=[restarted])
    view = TailnetView(destination=Destination("db.tail1234.ts.net"))
    findings = proxy_devices(PROXY, children, view, SETTINGS).findings
    assert [each.reason for each in findings] == reasons
    assert all("tag:k8s" in each.message for each in findings)


LOGGED_IN = {"device_id": "n1", "device_fqdn": "db.tail1234.ts.net.", "device_ips": '["100.64.0.1", "fd7a::1"]'}
OTHER = {**LOGGED_IN, "device_fqdn": "b.ts.net"}
IPS = "100.64.0.1, fd7a::1"
DEVICES = (("db.tail1234.ts.net", IPS),)
ROUTER = replace(PROXY, config=replace(CONFIG, routes=("10.0.0.0/8", "192.0.2.0/24")))


@pytest.mark.parametrize(
    ("proxy", "states", "outline"),
    [
        (PROXY, [], Outline("default-db")),
        (PROXY, [LOGGED_IN], Outline("default-db", "", DEVICES)),
        (PROXY, [{**LOGGED_IN, "device_ips": ""}], Outline("default-db")),
        (PROXY, [{**LOGGED_IN, "device_fqdn": ""}], Outline("default-db")),
        (PROXY, [OTHER, LOGGED_IN], Outline("default-db", "", (("b.ts.net", IPS), *DEVICES))),
        (PROXY, [LOGGED_IN, OTHER], Outline("default-db", "", (("b.ts.net", IPS), *DEVICES))),
        (replace(PROXY, replica_count=3), [], Outline("default-db")),
        (replace(PROXY, hostname_prefix="r"), [], Outline("r-0")),
        (replace(PROXY, hostname_prefix="r", replica_count=3), [], Outline("r-0..2")),
        (replace(PROXY, hostname_prefix="r", replica_count=0), [], Outline("")),
        (ROUTER, [], Outline("default-db", "10.0.0.0/8, 192.0.2.0/24")),
    ],
)
def test_the_outline_for_the_log_has_the_settings_of_a_proxy_and_its_ready_devices(
    proxy: Proxy, states: list[dict[str, str]], outline: Outline
) -> None:
    secrets = [secret(f"{NAME}-{number}", **state) for number, state in enumerate(states)]
    assert plan_proxy(proxy, Children(secrets=secrets), SETTINGS).outline == outline


def test_a_plan_has_events_for_ignored_annotations_and_delayed_auth_keys() -> None:
    proxy = replace(PROXY, notes=[Note("Warning", "Ignored", "left out")])
    asking = Children(secrets=[secret(device_id="n1", reissue_authkey="")])
    plan = plan_proxy(proxy, asking, SETTINGS, Keys({0: ""}, requeue_after=20.0))
    assert [note.reason for note in plan.notes] == ["AuthKeyDelayed", "Ignored"]
    assert plan.requeue_after == 20.0


def several(count: int) -> Proxy:
    """Return a proxy of *count* replicas, each of which has a hostname of its own."""
    return replace(PROXY, replica_count=count, hostname_prefix="ts-prod", tailnet="staging")


def config_of(ordinal: int) -> ProxyConfig:
    return replace(CONFIG, hostname=f"ts-prod-{ordinal}")


def replica_secret(ordinal: int, auth_key: str = "", **data: str) -> Object:
    return slim_secret(f"{NAME}-{ordinal}", {**config_files(config_of(ordinal), auth_key), **data}, OWNER.labels)


def counted(count: int, *, generation: int = 2, observed: int = 2, pods: int = 2, updated: int = 2) -> Object:
    counts = {"observedGeneration": observed, "replicas": pods, "updatedReplicas": updated}
    return stored({**standalone_statefulset(several(count), SETTINGS), "status": counts}, generation=generation)


def replicas(count: int, made: Object | None = None) -> Children:
    """Return the children of a proxy whose *count* replicas have logged in. *made* replaces its StatefulSet."""
    return Children(
        services=[service()],
        statefulsets=[made or counted(count, pods=count, updated=count)],
        secrets=[replica_secret(number, device_id=f"n{number}") for number in range(count)],
        pods=[pod(f"{NAME}-{number}", f"P{number}") for number in range(count)],
    )


def plan_of(count: int, children: Children, **auth_keys: str) -> Plan:
    """Return the plan for *count* replicas. *auth_keys* has the auth key of the first replica as ``r0``, and so on."""
    keys = Keys({int(name[1:]): key for name, key in auth_keys.items()})
    return plan_proxy(several(count), children, SETTINGS, keys)


def test_each_replica_gets_a_secret_with_its_hostname_and_its_auth_key_before_any_pod_runs() -> None:
    children = children_of(plan_of(2, Children(), r0="first", r1="second"))
    assert [obj["kind"] for obj in children] == ["Service", "Secret", "Secret", "StatefulSet"]
    assert [obj["metadata"]["name"] for obj in children] == [NAME, f"{NAME}-0", f"{NAME}-1", NAME]
    files = [config_files(config_of(0), "first"), config_files(config_of(1), "second")]
    assert [texts(obj) for obj in children[1:3]] == files


def test_a_proxy_whose_children_are_right_stays_unchanged() -> None:
    made = plan_of(3, replicas(3))
    assert [obj["kind"] for obj in children_of(made)] == ["Service", "StatefulSet"]
    assert (len(made.steps), made.requeue_after) == (2, None)


def test_a_new_config_is_patched_into_every_secret() -> None:
    other = replace(several(2), config=replace(CONFIG, routes=()))
    patches = patches_of(plan_proxy(other, replicas(2), SETTINGS))
    assert [patch.key.name for patch in patches] == [f"{NAME}-0", f"{NAME}-1"]
    assert {patch.about for patch in patches} == {"the configuration of the proxy"}
    files = [config_files(replace(config_of(number), routes=())) for number in (0, 1)]
    assert [texts(patch.body) for patch in patches] == files


def test_an_additional_replica_gets_a_secret_and_the_others_keep_theirs() -> None:
    made = plan_of(3, replicas(2), r2="third")
    assert [obj["metadata"]["name"] for obj in children_of(made)] == [NAME, f"{NAME}-2", NAME]
    assert texts(children_of(made)[1]) == config_files(config_of(2), "third")
    assert not patches_of(made)


def test_the_login_of_a_proxy_lists_the_devices_of_its_replicas_and_the_replicas_that_need_an_auth_key() -> None:
    children = Children(secrets=[replica_secret(0, device_id="n0"), replica_secret(1), replica_secret(2, auth_key="k")])
    login = proxy_login(several(4), children)
    assert (login.in_need, login.devices) == (frozenset({1, 3}), {0: "n0"})
    assert (login.owner, login.parent_uid, login.replicas) == (OWNER, "1234-UID", several(4).replicas)


def test_each_replica_of_a_standalone_proxy_has_one_secret_with_the_name_of_its_pod() -> None:
    first, second = (Key("tailscale", f"{NAME}-{number}") for number in range(2))
    assert several(2).replicas == [
        Replica(0, first, first, "ts-prod-0", ("tag:k8s",)),
        Replica(1, second, second, "ts-prod-1", ("tag:k8s",)),
    ]


SHRINKING: dict[str, tuple[list[Object], list[str]]] = {
    "as before": ([counted(2)], ["0", "1"]),
    "not seen": ([counted(1, generation=3, observed=2, pods=2)], ["0", "1"]),
    "not seen, Pod gone": ([counted(1, generation=3, observed=2, pods=1, updated=1)], ["0"]),
    "Pod to come": ([counted(2, pods=1, updated=1)], ["0"]),
    "Pod counted": ([counted(1, pods=2, updated=1)], ["0"]),
    "Pod there": ([counted(1, pods=1, updated=1)], ["0", "1"]),
    "others old": ([counted(1, pods=1, updated=0)], ["0"]),
    "deleted": ([], []),
}


@pytest.mark.parametrize(("there", "left"), SHRINKING.values(), ids=SHRINKING)
def test_the_secret_and_the_device_of_a_surplus_replica_stay_while_any_pod_can_use_the_secret(
    there: list[Object], left: list[str]
) -> None:
    pods = [pod(f"{NAME}-{number}", number) for number in left]
    made = plan_of(1, replace(replicas(2), statefulsets=there, pods=pods))
    assert (deletions_of(made), deleted_devices(made), made.way_out) == ([], [], "")
    assert made.requeue_after
    assert children_of(made)[-1]["spec"]["replicas"] == 1


@pytest.mark.parametrize("left", [0, 1])
def test_the_secret_and_the_device_of_a_surplus_replica_are_deleted_when_no_pod_uses_the_secret(left: int) -> None:
    children = replace(replicas(2, counted(left, pods=left, updated=left)), pods=replicas(left).pods)
    made = plan_of(left, children)
    gone = range(left, 2)
    assert made.steps[2:] == [
        *(DeleteDevice("staging", OWNER, f"n{number}", url=SETTINGS.control_url) for number in gone),
        *(Deletion(SECRET, children.secrets[number], unchanged=True) for number in gone),
    ]
    assert (made.release, made.requeue_after) == ("", None)
    assert f"Secret {' and '.join(f'tailscale/{NAME}-{number}' for number in gone)} by hand" in made.way_out


def test_a_secret_that_belongs_to_no_replica_is_not_deleted() -> None:
    strangers = [slim_secret(name, {"device_id": "n9"}, OWNER.labels) for name in (NAME, f"{NAME}-x", "ts-db-9-7")]
    children = replicas(1)
    made = plan_of(1, replace(children, secrets=[*children.secrets, *strangers]))
    assert (deleted_devices(made), deletions_of(made), made.requeue_after) == ([], [], None)


def test_the_devices_that_have_joined_are_listed_in_the_order_of_their_replicas() -> None:
    secrets = [
        replica_secret(10, device_id="n10"),
        replica_secret(1),
        replica_secret(2, device_id="n2"),
        replica_secret(0, device_id="n0"),
    ]
    assert [device.id for device in replica_devices(several(11), Children(secrets=secrets))] == ["n0", "n2", "n10"]
    assert [device.id for device in replica_devices(several(2), Children(secrets=secrets))] == ["n0"]
