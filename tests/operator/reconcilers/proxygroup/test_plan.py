"""The plan for a ProxyGroup of type egress: its children, its status and its Events."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tsoperator.api.device import Device
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import CONFIGMAP, POD, SECRET, SERVICE, SERVICEACCOUNT, STATEFULSET, Key, Object, key_of
from tsoperator.group.grouptype import EGRESS
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.entries import entries_of, slim_configmap
from tsoperator.proxy.login import Keys
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.proxygroup import plan as plans
from tsoperator.reconcilers.proxygroup.ask import parse
from tsoperator.reconcilers.proxygroup.plan import Observed
from tsoperator.runtime.diff import write_for
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Creation, DeleteDevice, Deletion, FreeName, Note, Patch, Plan, Refusal, SetTags
from tsoperator.settings import Settings

from tests.operator.proxy.recordings import recorded
from tests.operator.reconcilers.proxygroup import groups
from tests.operator.reconcilers.proxygroup.groups import OWNED, OWNER, SETTINGS, live_group, plan_of, proxy_of, running
from tests.support.objects import (
    children_of,
    deleted_devices,
    deleting,
    deletions_of,
    held,
    live_proxy_class,
    obj,
    patches_of,
    pod,
    reasons_of,
    settings,
    slim_secret,
    status_of,
    stored,
)
from tests.support.rows import Row, Said, play, said_by

NOTHING = Observed(Children())


def child(made: Plan, kind: str) -> Object:
    (found,) = [each for each in children_of(made) if each["kind"] == kind]
    return found


def ready(made: Plan, kind: str = "ProxyGroupReady") -> tuple[str, str, str]:
    (found,) = [each for each in status_of(made)["conditions"] if each["type"] == kind]
    return found["status"], found["reason"], found["message"]


def test_a_new_group_gets_its_service_account_before_its_secrets_and_its_pods_last() -> None:
    made = plan_of(live_group(), NOTHING, keys=Keys({0: "first", 1: "second"}))
    assert made.hold == FINALIZER
    assert [f"{each['kind']} {key_of(each).name}" for each in children_of(made)] == [
        *("ServiceAccount foo", "Role foo", "RoleBinding foo"),
        "ConfigMap foo-egress-config",
        *("Secret foo-0-config", "Secret foo-0", "Secret foo-1-config", "Secret foo-1"),
        "StatefulSet foo",
    ]
    for each in children_of(made):
        assert each["metadata"]["labels"].items() >= OWNER.labels.items()
        assert each["metadata"]["ownerReferences"] == OWNED["ownerReferences"]
    assert plan_of(live_group(), NOTHING, keys=Keys({0: ""}, 12)).requeue_after == 12


HEALTH_CHECK = "http://ts-db-x7k2p.tailscale.svc.k8s.example.org:9002/healthz"


def health_checks(written: Object) -> list[str]:
    """Return the URLs of the health checks in the entries that are *written* into an egress ConfigMap."""
    return [each.health_check for each in entries_of(slim_configmap({"metadata": {}, **written})).values()]


def test_a_new_group_that_waits_for_auth_keys_gets_all_children_but_secrets_and_pods() -> None:
    keys = Keys(awaited=frozenset({0, 1}), pending=ValueError("waiting"))
    observed = Observed(Children(), services=[groups.cluster_ip_service()])
    made = plan_of(live_group(), observed, keys=keys)
    kinds = [each["kind"] for each in children_of(made)]
    assert (kinds, made.error) == (["ServiceAccount", "Role", "RoleBinding", "ConfigMap"], keys.pending)
    assert health_checks(children_of(made)[-1]) == [HEALTH_CHECK]
    assert ready(made)[1:] == ("ProxyGroupCreating", "0/2 ProxyGroup pods running")


def test_the_plan_for_a_group_frees_the_name_of_a_new_device_before_its_secret_is_made_and_sets_tags_last() -> None:
    view = TailnetView(devices={"nodeid-0": Device("nodeid-0", "foo-0.tail1234.ts.net", "foo-0", tags=("tag:old",))})
    observed = Observed(replace(running(0), secrets=groups.joined(0)), tailnet=view)
    made = plan_of(live_group(), observed, replace(SETTINGS, take_over_names=True))
    secret = next(each for each in children_of(made) if each["kind"] == "Secret")
    asked = made.steps.index(FreeName("", OWNER, "foo-1", ("tag:k8s",)))
    assert asked < made.steps.index(Creation(secret))
    assert made.steps[-1] == SetTags("", OWNER, "nodeid-0", ("tag:k8s",))


@pytest.mark.parametrize("given", ["annotations", "labels"])
@pytest.mark.parametrize(
    ("key", "field"), [("hostname", "hostnamePrefix"), ("tags", "tags"), ("proxy-class", "proxyClass")]
)
def test_an_event_names_an_ineffective_annotation_or_label_of_a_group(given: str, key: str, field: str) -> None:
    marked: dict[str, Any] = {given: {f"tailscale.com/{key}": "x"}}
    for group in (live_group(**marked), live_group({"replicas": 101}, **marked)):
        (told,) = (note for note in plan_of(group, NOTHING).notes if note.reason.startswith("Ignored"))
        assert (told.once, told.message.endswith(f"ProxyGroup: write spec.{field} instead")) == (True, True)
    assert not plan_of(deleting(live_group(**marked)), NOTHING).notes


@pytest.mark.parametrize(("type_", "told"), [("egress", True), ("ingress", True), ("kube-apiserver", False)])
def test_an_event_says_that_settings_for_the_kubernetes_api_have_no_effect_on_other_groups(
    type_: str, told: bool
) -> None:
    group = live_group({"type": type_, "kubeAPIServer": {"mode": "auth"}})
    words = [note.message for note in plan_of(group, NOTHING).notes if note.reason == "IgnoredField"]
    begin = f"spec.kubeAPIServer has no effect on a ProxyGroup of type {type_}: remove it"
    assert [each.startswith(begin) for each in words] == [True] * told
    assert not plan_of(deleting(group), NOTHING).notes


def recorded_group() -> tuple[dict[str, Object], Observed]:
    """Return the Go operator's objects for a group of one replica, and the same objects as the cache has them."""
    made, found = recorded("group"), []
    for name, key in (("state", "one-0"), ("config", "one-0-config")):
        metadata = made[name]["metadata"]
        slim = slim_secret(key, made[name]["data"], metadata["labels"])
        found.append({**slim, "metadata": {**slim["metadata"], "ownerReferences": metadata["ownerReferences"]}})
    children = Children(statefulsets=[made["statefulset"]], secrets=found, pods=[pod("one-0", "pod-uid")])
    return made, Observed(
        children,
        configmap=slim_configmap(made["configmap"]),
        services=[made["service"]],
        tailnet=TailnetView(login_url="https://headscale.example.org"),
    )


def test_the_plan_for_a_group_of_the_go_operator_changes_only_metadata() -> None:
    made, observed = recorded_group()
    of = settings(proxy_image="tailscale/tailscale:stable", firewall_mode="auto")
    plan = plan_of(live_group({"replicas": 1}, name="one"), observed, of)
    assert not patches_of(plan)
    for each in children_of(plan):
        live = made.get(each["kind"].lower())
        if each["kind"] in ("ServiceAccount", "Role", "RoleBinding", "StatefulSet"):
            written = write_for(each, live)
            assert live is not None
            assert written is not None
            assert {**written, "metadata": live["metadata"]} == live


CREATING = "ProxyGroupCreating"
NEW = Children(secrets=[*groups.secrets(0, "a"), *groups.secrets(1, "b")])


def test_the_proxies_have_the_names_tags_tailnet_and_routes_that_the_group_chooses() -> None:
    spec = {"hostnamePrefix": "gate", "tags": ["tag:a"], "tailnet": "other", "proxyClass": "prod"}
    view = TailnetView("other", "https://other.example.org")
    class_ = live_proxy_class(spec={"tailscale": {"acceptRoutes": True}}, ready=True)
    proxy = proxy_of(live_group(spec), Observed(Children(), proxy_class=class_, tailnet=view))
    first, second = proxy.replicas
    assert (first.hostname, second.hostname, proxy.tailnet, first.tags) == ("gate-0", "gate-1", "other", ["tag:a"])
    assert (proxy.config.server_url, proxy.config.accept_routes) == ("https://other.example.org", True)


class Bad(NamedTuple):
    """A group that can't be made, the reason and words of its condition, and whether an Event says the same."""

    reason: str
    words: str
    group: Object = live_group()
    class_: Object | None = None
    tailnet: TailnetView = TailnetView()
    event: bool = True
    of: Settings = SETTINGS

    @property
    def row(self) -> Row:
        apart = "the operator has other settings" if self.of != SETTINGS else ""
        return Row(self.group, self.check, [*filter(None, [self.class_])], apart=apart)

    def check(self, said: Said) -> None:
        status, reason, message = said.ready("ProxyGroupReady")
        assert (status, reason, self.words in message) == ("False", self.reason, True), message
        assert (said.reasons, said.makes) == ([self.reason] * self.event, False)


def class_with(**container: object) -> Object:
    return live_proxy_class(spec={"statefulSet": {"pod": {"tailscaleContainer": container}}}, ready=True)


LONG, LONGEST = "a" * 50, "a" * 49
CLASSY, OTHER_IMAGE = live_group({"proxyClass": "prod"}), class_with(image="example.org/k8s-proxy:v1")
LONG_AND_CLASSY = live_group({"proxyClass": "prod"}, name=LONG)
LONG_PREFIX = live_group({"hostnamePrefix": "p" * 62, "replicas": 2})
NO_CLASS = "ProxyClass 'prod' does not exist: create it, or "
BAD = {
    "unparsable": Bad("ProxyGroupInvalid", "this ProxyGroup is invalid: spec.replicas", live_group({"replicas": "x"})),
    "reserved": Bad("ProxyGroupInvalid", "make it anew", live_group(name="kube-apiserver-auth-proxy")),
    "too long": Bad("ProxyGroupInvalid", "at most 49 characters", live_group(name=LONG)),
    "with a dot": Bad("ProxyGroupInvalid", "must be a DNS label", live_group(name="a.b")),
    "too many": Bad("ProxyGroupInvalid", "lower it, or make another ProxyGroup", live_group({"replicas": 2147483647})),
    "long hostnames": Bad("ProxyGroupInvalid", f"{'p' * 62}-1 must have at most 63 characters, not 64", LONG_PREFIX),
    "image": Bad("ProxyGroupInvalid", "leave tailscaleContainer.image out", CLASSY, OTHER_IMAGE),
    "all that is wrong": Bad("ProxyGroupInvalid", "with another; its ProxyClass has", LONG_AND_CLASSY, OTHER_IMAGE),
    "no class": Bad(CREATING, f"{NO_CLASS}change spec", CLASSY, event=False),
    "no default class": Bad(
        CREATING, f"{NO_CLASS}unset the operator's PROXY_DEFAULT_CLASS", event=False, of=settings(proxy_class="prod")
    ),
    "tailnet": Bad(
        "ProxyGroupTailnetUnavailable",
        "create it",
        live_group({"tailnet": "x"}),
        tailnet=TailnetView("x", refusal=Refusal("create it")),
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_the_condition_says_why_a_group_cannot_be_made_and_its_proxies_stay(bad: Bad) -> None:
    made = plan_of(bad.group, Observed(running(0), proxy_class=bad.class_, tailnet=bad.tailnet), bad.of)
    bad.check(said_by(made))
    assert (made.steps, made.hold, made.error) == ([], "", None)


def test_a_group_with_a_mirrored_image_and_the_longest_allowed_names_is_accepted() -> None:
    fine = Observed(Children(), proxy_class=class_with(image="example.org/k8s-proxy/tailscale:v1"))
    assert proxy_of(CLASSY, fine).owner == OWNER
    assert proxy_of(live_group(name=LONGEST), NOTHING).key.name == LONGEST
    longest = proxy_of(live_group({"hostnamePrefix": "p" * 61, "replicas": 10}), NOTHING).replicas[-1].hostname
    assert len(longest) == 63


def test_a_group_writes_no_status_while_its_class_is_being_checked_again() -> None:
    checked = live_proxy_class(spec={}, ready=True)
    changed = {**checked, "metadata": {**checked["metadata"], "generation": 2}}
    made = plan_of(CLASSY, Observed(running(0, 1), proxy_class=changed))
    assert (made.status, children_of(made), [*made.notes]) == (None, [], [])


def configmap_of(group: str, **changes: Any) -> Object:
    found = recorded("group")["configmap"]
    owner = [{**OWNED["ownerReferences"][0], "name": group}]
    return slim_configmap({**found, "metadata": {**found["metadata"], "ownerReferences": owner, **changes}})


def test_a_group_with_a_broken_spec_still_gets_the_entries_of_new_services() -> None:
    broken = live_group({"replicas": "x"})
    observed = Observed(running(0, 1), configmap=configmap_of("foo"), services=[groups.cluster_ip_service()])
    (patch,) = plan_of(broken, observed).steps
    assert isinstance(patch, Patch)
    assert (patch.resource, list(patch.body)) == (CONFIGMAP, ["binaryData"])
    assert health_checks(patch.body) == [HEALTH_CHECK]
    assert plan_of(broken, replace(observed, configmap=configmap_of("bar"))).steps == []
    bare = configmap_of("foo", ownerReferences=None, labels=None)
    assert plan_of(broken, replace(observed, configmap=bare)).steps == [patch]


def test_the_plan_writes_the_entries_of_an_existing_configmap_before_steps_that_the_control_server_can_refuse() -> None:
    observed = Observed(running(0, 1), configmap=configmap_of("foo"), services=[groups.cluster_ip_service()])
    group = live_group({"replicas": 3})
    first, *_ = plan_of(group, observed, replace(SETTINGS, take_over_names=True)).steps
    assert isinstance(first, Patch)
    assert first.resource == CONFIGMAP
    (only,) = plan_of(group, observed, keys=Refusal("no tags", error=ValueError())).steps
    assert isinstance(only, Patch)
    assert list(only.body["binaryData"]) == ["egress-services"]


NAMESERVERS = Owner("nameserver", Key("tailscale", "dns"))
STRANGERS = [
    obj(SERVICEACCOUNT, Key("tailscale", "foo"), labels=NAMESERVERS.labels),
    slim_secret("foo-0", {}, Owner("svc", Key("default", "db")).labels),
    configmap_of("bar", name="foo-egress-config"),
]


def in_the_way(stranger: Object) -> Bad:
    """Return the expected report of a group that needs the name of *stranger*."""
    words = f"{stranger['kind']} tailscale/{stranger['metadata']['name']} is in the way: "
    return Bad("ProxyGroupCreationFailed", words)


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda found: found["kind"])
def test_a_group_reports_that_a_child_of_another_parent_has_a_name_that_the_group_needs(
    stranger: Object,
) -> None:
    made = plan_of(live_group(), Observed(running(0), [stranger]))
    in_the_way(stranger).check(said_by(made))
    assert made.requeue_after == 60


@pytest.mark.virtual_time
async def test_a_group_on_a_cluster_has_the_status_and_the_events_of_its_plan() -> None:
    strangers = {each["kind"]: Row(live_group(), in_the_way(each).check, [each]) for each in STRANGERS}
    await play(strangers | {name: bad.row for name, bad in BAD.items()})


def test_a_refused_write_for_a_group_is_reported_and_tried_again() -> None:
    error = ValueError("no")
    made = plan_of(live_group(), Observed(running(0)), keys=Refusal("no tags", error=error))
    assert (ready(made), made.error) == (("False", "ProxyGroupCreationFailed", "no tags"), error)
    assert ready(made, "ProxyGroupAvailable") == ("True", CREATING, "1/2 ProxyGroup pods running")
    assert made.notes == [Note("Warning", "ProxyGroupCreationFailed", "no tags")]
    named = plans.failed(parse(live_group(), SETTINGS), NOTHING, Refusal("not there", "UnsupportedByControlServer"))
    assert ready(named)[1] == "UnsupportedByControlServer"


def test_the_condition_of_a_group_names_a_replica_that_cannot_log_in() -> None:
    asking = groups.secrets(0, "old", device_id="n0", device_fqdn="a.b", pod_uid="p0", reissue_authkey="old")
    children = replace(running(0, 1), secrets=[*asking, *groups.joined(1)])
    made = plan_of(live_group(), Observed(children), keys=Keys({0: "new"}))
    assert (ready(made)[:2], reasons_of(made)) == (("False", CREATING), ["AuthKeyReissued"])
    assert "replica 0 could not log in" in ready(made)[2]


MOVED = class_with(env=[{"name": "TS_LOCAL_ADDR_PORT", "value": "[::]:9003"}])


def test_an_event_says_that_a_class_prevents_the_draining_of_proxies() -> None:
    made = plan_of(CLASSY, Observed(running(0, 1), proxy_class=MOVED))
    assert reasons_of(made) == ["NoGracefulShutdown", "ProxyGroupReady"]


@pytest.mark.parametrize(("group", "class_"), [(live_group(), None), (CLASSY, MOVED)])
def test_a_group_of_a_type_that_does_not_drain_has_neither_a_gate_nor_an_event_about_draining(
    group: Object, class_: Object | None
) -> None:
    ask = replace(parse(group, SETTINGS), type=replace(EGRESS, drains=False))
    seen = Observed(Children(), proxy_class=class_)
    made = plans.plan(ask, plans.wanted(ask, seen, SETTINGS), seen, SETTINGS)
    assert "readinessGates" not in child(made, "StatefulSet")["spec"]["template"]["spec"]
    assert reasons_of(made) == []


def statefulset(replicas: int, pods: int | None = None) -> Object:
    """Return the StatefulSet with *replicas*. Its status counts that many *pods*, or else one for each replica."""
    counts = {"replicas": pods or replicas, "updatedReplicas": replicas}
    made = child(plan_of(live_group({"replicas": replicas}), NOTHING), "StatefulSet")
    return stored({**made, "status": {**counts, "observedGeneration": 2}}, generation=2)


LAB = TailnetView("lab")


def shrunk(pods: int, live: Object) -> Plan:
    """Return the plan for a group in another tailnet that shrinks from 3 replicas to 1 and has *pods* Pods left."""
    children = replace(running(0, 1, 2, statefulset=live), pods=running(*range(pods)).pods)
    return plan_of(live_group({"replicas": 1, "tailnet": "lab"}), Observed(children, tailnet=LAB))


def test_a_surplus_replica_keeps_its_device_and_its_rights_while_pods_mount_its_secrets() -> None:
    made = shrunk(2, statefulset(1, pods=2))
    assert (deletions_of(made), deleted_devices(made), made.requeue_after) == ([], [], 5)
    assert len(child(made, "Role")["rules"][1]["resourceNames"]) == 6


def ended(*ordinals: int) -> list[object]:
    """Return the steps that remove replicas: the deletion of the devices, followed by that of the Secrets."""
    found = [each for ordinal in ordinals for each in groups.joined(ordinal)]
    devices = [
        DeleteDevice("lab", OWNER, f"nodeid-{each}", f"foo-{each}.tail1234.ts.net", groups.SETTINGS.control_url)
        for each in ordinals
    ]
    return [*devices, *(Deletion(SECRET, each, unchanged=True) for each in found)]


def test_the_device_of_a_surplus_replica_is_deleted_before_its_secrets() -> None:
    made = shrunk(1, statefulset(1))
    assert (made.steps[-6:], made.requeue_after) == (ended(1, 2), None)
    assert "delete Secret tailscale/foo-1 and tailscale/foo-2 by hand" in made.way_out


def test_the_config_secrets_that_the_only_remaining_pod_of_a_group_mounts_stay() -> None:
    volumes = [{"name": f"tailscaledconfig-{ordinal}"} for ordinal in range(2)]
    live = statefulset(1)
    live["spec"]["template"] = {"spec": {"volumes": volumes}}
    state, config = groups.joined(1)
    assert deletions_of(shrunk(1, live)) == [
        Deletion(SECRET, each, unchanged=True) for each in (state, *groups.joined(2))
    ]
    assert config not in [each.obj for each in deletions_of(shrunk(1, live))]


MEASURED = live_proxy_class(spec={"metrics": {"enable": True}}, ready=True)


def test_the_metrics_service_of_a_group_is_deleted_when_no_class_asks_for_metrics() -> None:
    labels = {"tailscale.com/managed": "true", "ts_proxy_type": "proxygroup", "ts_proxy_parent_name": "foo"}
    service = obj(SERVICE, Key("tailscale", "foo-metrics"), {"spec": {"ipFamilies": ["IPv4"]}}, labels=labels)
    children = replace(running(0, 1), metrics=[service])
    assert deletions_of(plan_of(live_group(), Observed(children))) == [Deletion(SERVICE, service)]
    made = plan_of(CLASSY, Observed(children, proxy_class=MEASURED))
    assert deletions_of(made) == []
    assert child(made, "Service")["metadata"]["ownerReferences"] == OWNED["ownerReferences"]
    assert child(made, "Service")["spec"]["selector"] == OWNER.labels


LEAVING = deleting(held(live_group()))


def test_a_deleted_group_waits_until_its_pods_have_ended() -> None:
    live = statefulset(2)
    made = plan_of(LEAVING, Observed(running(0, 1, statefulset=live)))
    assert (made.steps, made.release, made.requeue_after) == ([Deletion(STATEFULSET, live)], "", 5)
    owned = obj(POD, Key("tailscale", "foo-0"), ownerReferences=[{"kind": "StatefulSet"}])
    waiting = plan_of(LEAVING, Observed(replace(running(0, 1), pods=[deleting(owned)])))
    assert (waiting.steps, waiting.release) == ([], "")
    message = "it is being removed: waiting for Pod tailscale/foo-0 to end"
    assert ready(waiting) == ("False", "ProxyGroupTerminating", message)


def test_the_pods_of_a_deleted_group_are_deleted_first_with_a_grace_period_of_thirty_seconds() -> None:
    pods = [obj(POD, Key("tailscale", f"foo-{each}"), ownerReferences=[{"kind": "StatefulSet"}]) for each in (0, 1)]
    made = plan_of(LEAVING, Observed(replace(running(0, 1, statefulset=statefulset(2)), pods=pods)))
    assert made.steps == [*(Deletion(POD, each, grace=30) for each in pods), Deletion(STATEFULSET, statefulset(2))]


def test_the_devices_of_a_deleted_group_are_deleted_before_its_other_objects() -> None:
    made = plan_of(LEAVING, Observed(replace(running(0, 1), pods=[]), tailnet=LAB))
    assert (made.steps, made.release) == (ended(0, 1), FINALIZER)
    new = plan_of(LEAVING, Observed(NEW))
    assert (deleted_devices(new), new.release, new.way_out) == ([], FINALIZER, "")


def test_a_deleted_group_says_that_it_waits_for_its_tailnet() -> None:
    view = TailnetView("x", pending=ValueError("waiting"))
    made = plan_of(LEAVING, Observed(replace(running(0), pods=[]), tailnet=view))
    status, reason, message = ready(made)
    assert (status, reason, deleted_devices(made)) == ("False", "ProxyGroupTailnetUnavailable", ["nodeid-0"])
    assert message.startswith(
        "its devices can't be deleted until the operator has tried the credentials of Tailnet 'x'"
    )
    assert plan_of(LEAVING, Observed(NEW, tailnet=view)).status is None


def test_a_deleted_group_in_an_unusable_tailnet_says_that_the_deletion_of_its_devices_is_refused() -> None:
    view = TailnetView("x", refusal=Refusal("Tailnet 'x' is gone"))
    made = plans.failed(
        parse(LEAVING, SETTINGS), Observed(running(0), tailnet=view), Refusal("no", error=ValueError("no"))
    )
    assert ready(made) == ("False", "ProxyGroupTailnetUnavailable", "no")


def test_a_group_that_waits_for_its_tailnet_still_gets_the_entries_of_new_services() -> None:
    view = TailnetView("x", pending=ValueError("waiting"))
    services = [groups.cluster_ip_service()]
    made = plan_of(
        live_group(), Observed(running(0, 1), configmap=configmap_of("foo"), services=services, tailnet=view)
    )
    (step,) = made.steps
    assert isinstance(step, Patch)
    assert (step.resource, made.status, made.error) == (CONFIGMAP, None, view.pending)


def test_the_plan_for_a_deleted_group_without_our_finalizer_is_empty() -> None:
    assert plan_of(deleting(live_group()), NOTHING) == Plan()
