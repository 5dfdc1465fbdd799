"""The plan for a DNSConfig: its nameserver, its status and its Events."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.conditions import condition
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import CONFIGMAP, DEPLOYMENT, DNSCONFIG, POD, SERVICE, Key, Object
from tsoperator.dns.cluster.address import NO_ADDRESSES
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.nameserver import nameserver_labels
from tsoperator.dns.probe.answers import ServerVerdict
from tsoperator.reconcilers.dnsconfig import clusterdns
from tsoperator.reconcilers.dnsconfig import plan as plans
from tsoperator.reconcilers.dnsconfig.plan import Observed
from tsoperator.runtime.ownership import owner_reference
from tsoperator.runtime.plan import Child, Note, Patch, Plan, Refusal
from tsoperator.runtime.reverts import Reverts
from tsoperator.settings import Settings
from tsoperator.tailnet.zones import Suffixes

from tests.support.objects import children_of, condition_of, deleting, held, live_dnsconfig, obj, settings, status_of

SETTINGS = settings()
OURS = settings(nameserver_image="example.org/tsnameserver:v1")
THEIRS = settings(nameserver_image="tailscale/k8s-nameserver:stable")
UNKNOWN = settings(nameserver_image="example.org/k8s-nameserver:v1")
NAMESERVER = "tailscale.com/nameserver"
ROLLING = "ours, with its rollout under way"
KEY = Key("tailscale", "nameserver")


def plan(found: Object, *others: Object, of: Settings = SETTINGS, **observed: Any) -> Plan:
    seen = Observed([found, *others], **observed)
    return plans.plan(found, plans.cluster_dns(found, seen, of), seen, of, {})


def child(made: Plan, kind: str) -> Object:
    (found,) = [obj for obj in children_of(made) if obj["kind"] == kind]
    return found


def deployment_spec(nameserver: Object | None = None, of: Settings = SETTINGS) -> Object:
    spec: Object = child(plan(live_dnsconfig(nameserver=nameserver), of=of), "Deployment")["spec"]
    return spec


def pod_of(spec: Object) -> Object:
    pod: Object = spec["template"]["spec"]
    return pod


def live_service(**spec: str) -> Object:
    return obj(SERVICE, KEY, {"spec": spec})


UP = live_service(clusterIP="192.0.2.53")


def test_every_child_is_in_the_operators_namespace_and_owned_by_the_dnsconfig() -> None:
    made = plan(live_dnsconfig())
    assert made.hold == FINALIZER
    kinds = ["Service", "ServiceAccount", "Role", "RoleBinding", "Deployment"]
    assert [found["kind"] for found in children_of(made)] == kinds
    for found in children_of(made):
        assert found["metadata"] == {
            "namespace": "tailscale",
            "name": "nameserver",
            "labels": nameserver_labels("ts-dns", "tailscale"),
            "ownerReferences": [owner_reference(DNSCONFIG, "ts-dns", "ts-dns-uid")],
        }


def test_the_nameserver_may_read_configmaps_and_nothing_else() -> None:
    made = plan(live_dnsconfig())
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    assert child(made, "Role")["rules"] == [rule]
    binding = child(made, "RoleBinding")
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "nameserver"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "nameserver", "namespace": "tailscale"}]


def test_our_image_is_probed_has_no_privileges_and_is_replaced_without_a_gap() -> None:
    spec = deployment_spec(of=OURS)
    (container,) = pod_of(spec)["containers"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert (spec["minReadySeconds"], container["args"]) == (5, ["--drain=10"])
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert [port["name"] for port in container["ports"]] == ["tcp", "udp", "health", "metrics"]
    assert container["securityContext"]["runAsNonRoot"] is True


SNAPSHOT = ({"name": "snapshot", "emptyDir": {}}, "/snapshot")
MOUNTED = ({"name": "dnsrecords", "configMap": {"name": "dnsrecords"}}, "/config")


@pytest.mark.parametrize(("of", "volume", "path"), [(OURS, *SNAPSHOT), (THEIRS, *MOUNTED), (UNKNOWN, *MOUNTED)])
def test_our_image_keeps_a_snapshot_and_others_mount_the_records(of: Settings, volume: Object, path: str) -> None:
    pod = pod_of(deployment_spec(of=of))
    assert pod["volumes"] == [volume]
    assert pod["containers"][0]["volumeMounts"] == [{"name": volume["name"], "mountPath": path}]


def test_the_environment_of_our_image_has_the_snapshots_path_and_the_settings_of_the_log() -> None:
    quiet, json, share = (
        pod_of(deployment_spec(of=settings(nameserver_image=OURS.nameserver_image, **change)))["containers"][0]
        for change in ({}, {"log_format": "json"}, {"nameserver_log_queries": "1/10"})
    )
    assert quiet["env"] == [{"name": "TSNAMESERVER_SNAPSHOT", "value": "/snapshot/records"}]
    assert json == {**quiet, "env": [*quiet["env"], {"name": "TSNAMESERVER_LOG_FORMAT", "value": "json"}]}
    assert share == {**quiet, "env": [*quiet["env"], {"name": "TSNAMESERVER_LOG_QUERIES", "value": "1/10"}]}


def test_the_environment_of_the_go_operators_image_has_no_settings_of_the_log() -> None:
    assert deployment_spec(of=settings(log_format="json", nameserver_log_queries="1/10")) == deployment_spec()


@pytest.mark.parametrize("replicas", [0, 1, 3])
def test_the_deployment_has_the_replicas_and_the_image_of_the_dnsconfig(replicas: int) -> None:
    spec = deployment_spec({"replicas": replicas, "image": {"repo": "example.org/ns", "tag": "v2"}})
    assert (spec["replicas"], pod_of(spec)["containers"][0]["image"]) == (replicas, "example.org/ns:v2")


def test_the_pods_have_the_placement_that_the_dnsconfig_asks_for() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    asked = {
        "affinity": {"nodeAffinity": required},
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dns", "operator": "Exists"}],
    }
    pod = pod_of(deployment_spec({"pod": asked}))
    assert {name: pod[name] for name in asked} == asked


@pytest.mark.parametrize("pod", [{}, {"nodeSelector": {}, "tolerations": [], "imagePullSecrets": []}])
def test_the_pods_have_no_fields_of_placement_that_the_dnsconfig_leaves_out_or_empty(pod: Object) -> None:
    assert pod_of(deployment_spec({"pod": pod})) == pod_of(deployment_spec())


class Rollout(NamedTuple):
    """A Deployment's status, the number of its Pods that are ours, and whether the Service leads only to those Pods."""

    replicas: int
    updated: int
    ready: int
    pods: int
    alone: bool
    wanted: int = 1
    of: Settings = OURS
    seen: int = 1


@pytest.mark.parametrize(
    "case",
    [
        Rollout(0, 0, 0, 0, alone=False),
        Rollout(1, 0, 1, 0, alone=False),  # there is no new Pod yet
        Rollout(2, 1, 1, 1, alone=False),  # the new Pod isn't ready
        Rollout(2, 1, 2, 1, alone=True),
        Rollout(1, 1, 1, 1, alone=False),  # the old Pod has been stopped
        Rollout(2, 1, 2, 2, alone=False),  # the old Pod is ours, too
        Rollout(3, 1, 3, 1, alone=True, wanted=2),
        Rollout(3, 2, 2, 2, alone=False, wanted=2),  # the second new Pod isn't ready, which may last
        Rollout(3, 2, 3, 2, alone=True, wanted=2),
        Rollout(3, 1, 2, 1, alone=False),  # there are two old Pods, and only one is wanted
        Rollout(2, 1, 2, 0, alone=False, of=SETTINGS),
        Rollout(2, 1, 2, 1, alone=False, seen=0),
    ],
)
def test_the_service_leads_past_a_nameserver_of_the_go_operator_that_is_about_to_be_stopped(case: Rollout) -> None:
    spec = deployment_spec({"replicas": case.wanted}, of=case.of)
    counts = {"replicas": case.replicas, "updatedReplicas": case.updated, "readyReplicas": case.ready}
    content = {"spec": spec, "status": {"observedGeneration": case.seen, **counts}}
    pods = [obj(POD, Key("tailscale", f"nameserver-{each}")) for each in range(case.pods)]
    made = plan(live_dnsconfig(), of=OURS, deployment=obj(DEPLOYMENT, KEY, content, generation=1), pods=pods)
    selector = child(made, "Service")["spec"]["selector"]
    assert selector == {"app": "nameserver", **({"tailscale.com/managed": "true"} if case.alone else {})}


ASKED = {"service": {"clusterIP": "192.0.2.53"}}
ELSEWHERE = live_service(clusterIP="192.0.2.99")


@pytest.mark.parametrize(
    ("nameserver", "live", "address"),
    [(ASKED, None, "192.0.2.53"), (ASKED, ELSEWHERE, "192.0.2.99"), ({}, ELSEWHERE, "192.0.2.99")],
)
def test_the_cluster_ip_of_the_spec_has_an_effect_only_when_the_service_is_made(
    nameserver: Object, live: Object | None, address: str
) -> None:
    made = plan(live_dnsconfig(nameserver=nameserver), service=live)
    assert child(made, "Service")["spec"]["clusterIP"] == address


UP_AND_READY = obj(DEPLOYMENT, KEY, {"spec": {"template": {"metadata": {}}}, "status": {"readyReplicas": 1}})
ANSWERS, SILENT = (
    ServerVerdict("", "192.0.2.53"),
    ServerVerdict("", "192.0.2.53", "NoAnswer", "the nameserver is silent"),
)
WORKING: dict[str, Any] = {"service": UP, "deployment": UP_AND_READY, "nameserver": ANSWERS}


class Nameserver(NamedTuple):
    """The state of a nameserver, and the result for its condition: whether it works, and the problem."""

    ready: Object | None
    answer: ServerVerdict | None
    was: str = ""
    works: bool = False
    problem: str = "NameserverCreated"


NAMESERVERS = {
    "ready": Nameserver(UP_AND_READY, ANSWERS, works=True),
    "not ready": Nameserver(None, None, problem="no Pod of the nameserver is ready: if that lasts, see why with "),
    "not ready any more": Nameserver(None, ANSWERS, "True", problem="no Pod of the nameserver is ready"),
    "silent": Nameserver(UP_AND_READY, SILENT, "True", problem="the nameserver is silent"),
    "not asked": Nameserver(UP_AND_READY, None, "False", problem="the operator hasn't asked the nameserver yet"),
    "ready for an earlier leader": Nameserver(UP_AND_READY, None, "True", works=True),
}


@pytest.mark.parametrize("case", NAMESERVERS.values(), ids=NAMESERVERS)
def test_a_nameserver_is_ready_once_a_pod_of_it_is_ready_and_answers(case: Nameserver) -> None:
    said = condition("NameserverReady", case.was, "Any", "") | {"lastTransitionTime": "2026-01-02T03:04:05Z"}
    before = [said] if case.was else []
    found = {**live_dnsconfig(generation=4), "status": {"conditions": before}}
    made = plan(found, service=UP, deployment=case.ready, nameserver=case.answer, of=OURS)
    ready, reason = status_of(made)["conditions"][0], "NameserverCreated" if case.works else "NameserverPending"
    wanted = ("NameserverReady", str(case.works), reason, 4)
    assert tuple(ready[name] for name in ("type", "status", "reason", "observedGeneration")) == wanted
    assert ready["message"].startswith(case.problem)
    assert status_of(made)["nameserver"] == {"ip": "192.0.2.53"}


@pytest.mark.parametrize("service", [None, UP])
def test_no_service_is_made_while_the_zones_may_become_known_in_a_moment(service: Object | None) -> None:
    made = plan(live_dnsconfig(), service=service, suffixes=Suffixes(pending=True))
    kinds = [each["kind"] for each in children_of(made)]
    assert (kinds[:-3], made.status, made.requeue_after) == ([*["Service"] * bool(service), "ServiceAccount"], None, 1)


@pytest.mark.parametrize("service", [None, live_service(), live_service(clusterIP="None")])
def test_the_status_is_left_alone_until_the_service_has_an_address(service: Object | None) -> None:
    assert plan(live_dnsconfig(), service=service).status is None


def conditions_with(
    left_out: str | None, of: object = SETTINGS, image: Object | None = None, **conditions: Object
) -> list[Object]:
    """Return the conditions of a DNSConfig whose ConfigMap of records says that it leaves out *left_out* names."""
    found = live_dnsconfig(nameserver={"image": image} if image else {}, generation=4)
    found["status"] = {"conditions": [*conditions.values()]}
    notes = {} if left_out is None else {"tailscale.com/records-left-out": left_out}
    records = obj(CONFIGMAP, Key("tailscale", "dnsrecords"), annotations=notes)
    counts = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    content = {"spec": deployment_spec(of=OURS), "status": {"readyReplicas": 1, **({} if of is ROLLING else counts)}}
    live = {**WORKING, "records": records, "deployment": obj(DEPLOYMENT, KEY, content, generation=1)}
    made: list[Object] = status_of(plan(found, of=SETTINGS if of is SETTINGS else OURS, **live))["conditions"]
    return made


@pytest.mark.parametrize(
    ("of", "message", "image"),
    [
        (
            SETTINGS,
            "tailscale/k8s-nameserver:stable reads one ConfigMap, and it is full: set spec.nameserver.image to this "
            "operator's nameserver, which reads several",
            {},
        ),
        (
            OURS,
            "mirror.org/ns:stable may read only one ConfigMap, and it is full: if it is this operator's nameserver, "
            "set annotation tailscale.com/nameserver to tsnameserver",
            {"repo": "mirror.org/ns"},
        ),
        (OURS, "32 ConfigMaps are full, and there can't be more", {}),
        (
            ROLLING,
            "one ConfigMap is full, and there will be more when all Pods of Deployment nameserver run "
            "example.org/tsnameserver:v1: see what its rollout waits for",
            {},
        ),
    ],
)
def test_a_condition_says_how_many_names_are_left_out_of_the_records_and_why(
    of: object, message: str, image: Object
) -> None:
    ready, *_, incomplete = conditions_with("12", of, image)
    assert (ready["type"], ready["status"]) == ("NameserverReady", "True")
    wanted = condition("RecordsComplete", False, "TooManyNames", f"12 names don't resolve: {message}", 4)
    assert {name: incomplete[name] for name in wanted} == wanted


@pytest.mark.parametrize(("kind", "left_out"), [("RecordsComplete", None), ("NameserverComplete", "")])
def test_a_condition_about_missing_names_or_features_goes_when_nothing_is_missing(
    kind: str, left_out: str | None
) -> None:
    old = condition(kind, False, "Old", "12") | {"lastTransitionTime": "2026-01-02T03:04:05Z"}
    left = [each["type"] for each in conditions_with(left_out, OURS, old=old)]
    assert left == ["NameserverReady", "ClusterDNSReady"]


class Lost(NamedTuple):
    """A nameserver that may not be ours, and how the message of the condition about it begins and ends."""

    begins: str
    ends: str
    reason: str = "UpstreamImage"
    of: Settings = OURS
    image: str = ""
    said: str | None = None


SET_OURS = (
    "set spec.nameserver.image to this operator's nameserver and annotation tailscale.com/nameserver to tsnameserver"
)
LOST = {
    "the default": Lost(
        "tailscale/k8s-nameserver:stable is Tailscale's nameserver: changes reach it up to two minutes late; ",
        f". To mend that, {SET_OURS}",
        of=SETTINGS,
    ),
    "instead of ours": Lost(
        "tailscale/k8s-nameserver:stable is Tailscale's nameserver: it refuses names in tail.example.org; changes ",
        ". To mend that, take spec.nameserver.image away to get example.org/tsnameserver:v1",
        of=replace(OURS, zones=("tail.example.org", "ts.net")),
        image="tailscale/k8s-nameserver",
    ),
    "said to be Tailscale's": Lost(
        "example.org/tsnameserver:v1 is Tailscale's nameserver: ", SET_OURS, said="k8s-nameserver"
    ),
    "unknown": Lost(
        "mirror.org/ns:stable may be this operator's nameserver or Tailscale's",
        "set annotation tailscale.com/nameserver of this DNSConfig to tsnameserver or k8s-nameserver",
        "UnknownImage",
        image="mirror.org/ns",
    ),
}


@pytest.mark.parametrize("case", LOST.values(), ids=LOST)
def test_a_condition_says_what_a_nameserver_that_is_not_ours_cannot_do(case: Lost) -> None:
    said, image = {NAMESERVER: case.said} if case.said else {}, {"repo": case.image} if case.image else {}
    found = live_dnsconfig(nameserver={"image": image}, generation=4, annotations=said)
    ready, *_, lost = status_of(plan(found, of=case.of, **WORKING))["conditions"]
    assert (ready["type"], ready["status"]) == ("NameserverReady", "True")
    told = ("NameserverComplete", "False", case.reason, 4)
    assert tuple(lost[name] for name in ("type", "status", "reason", "observedGeneration")) == told
    assert lost["message"].startswith(case.begins)
    assert lost["message"].endswith(case.ends)


MIRRORED: Object = {"image": {"repo": "mirror.org/ns"}}


def test_an_unknown_image_runs_with_the_same_deployment_as_the_go_operators_image() -> None:
    said = live_dnsconfig(nameserver=MIRRORED, annotations={NAMESERVER: "k8s-nameserver"})
    assert deployment_spec(MIRRORED, OURS) == child(plan(said, of=OURS), "Deployment")["spec"]


def test_an_image_that_the_annotation_calls_ours_gets_a_readiness_probe() -> None:
    made = plan(live_dnsconfig(nameserver=MIRRORED, annotations={NAMESERVER: "tsnameserver"}), service=UP, of=OURS)
    (container,) = pod_of(child(made, "Deployment")["spec"])["containers"]
    assert (container["image"], "readinessProbe" in container) == ("mirror.org/ns:v1", True)
    assert [each["type"] for each in status_of(made)["conditions"]] == ["NameserverReady", "ClusterDNSReady"]


def refused(found: Object, *others: Object) -> Object:
    """Return the first condition of the plan for *found*, which must change nothing but the status."""
    made = plan(found, *others, service=UP)
    told: Object = status_of(made)["conditions"][0]
    assert made == Plan(status=made.status, notes=[Note("Warning", told["reason"], told["message"])])
    assert status_of(made).get("nameserver") == found.get("status", {}).get("nameserver")
    return told


def test_of_two_dnsconfigs_the_younger_is_refused_and_the_older_stays() -> None:
    old = live_dnsconfig("old", creationTimestamp="2026-01-01T00:00:00Z")
    new = live_dnsconfig("new", creationTimestamp="2026-01-02T00:00:00Z", generation=2)
    told = refused(new, old)
    assert (told["status"], told["reason"]) == ("False", "MultipleDNSConfigsPresent")
    assert "'old' is older: delete one of the two" in told["message"]
    assert told["observedGeneration"] == 2
    assert plan(old, new).steps == plan(old).steps


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"annotations": {NAMESERVER: "mine"}}, 'annotation tailscale.com/nameserver is "mine": write '),
        ({"nameserver": {"replicas": -1}}, "spec.nameserver.replicas must be at least 0"),
    ],
)
def test_an_invalid_dnsconfig_says_so_in_its_condition_and_keeps_its_nameserver(given: Object, words: str) -> None:
    status = {"nameserver": {"ip": "192.0.2.53"}}
    told = refused({**live_dnsconfig(**given, generation=3), "status": status})
    assert (told["status"], told["reason"], told["observedGeneration"]) == ("False", "NameserverInvalid", 3)
    assert words in told["message"]


class Asked(NamedTuple):
    """A DNSConfig whose spec can't take effect, and the condition about the answers of the cluster's DNS."""

    found: Object
    told: tuple[str, str, str] | None = ("False", "NoAnswer", "silence")
    others: tuple[Object, ...] = ()
    service: Object | None = UP


ASKED_FOR = {
    "invalid": Asked(live_dnsconfig(nameserver={"replicas": -1}, generation=3)),
    "with a wrong annotation": Asked(live_dnsconfig(annotations={NAMESERVER: "mine"}, generation=3)),
    "without a nameserver": Asked(
        live_dnsconfig(nameserver={"replicas": -1}, generation=3),
        ("Unknown", "NotAsked", "the operator asks the cluster's DNS when the nameserver has an address"),
        service=None,
    ),
    "the second": Asked(live_dnsconfig(), None, others=(live_dnsconfig("a-first"),)),
}


@pytest.mark.parametrize("case", ASKED_FOR.values(), ids=ASKED_FOR)
def test_a_dnsconfig_whose_spec_cannot_take_effect_still_reports_the_answers_of_the_clusters_dns(case: Asked) -> None:
    verdicts = [ServerVerdict("ts.net", "192.0.2.10", "NoAnswer", "silence")]
    observed = Observed([case.found, *case.others], case.service, verdicts=verdicts)
    of = settings(cluster_dns=("192.0.2.10",))
    told = [condition("ClusterDNSReady", *case.told, 3) | {"lastTransitionTime": ""}] if case.told else []
    made = plan(case.found, *case.others, of=of, service=case.service, verdicts=verdicts)
    failed = plans.failed(case.found, observed, Refusal("no"), of, is_denied=True)
    for each in (made, failed):
        assert status_of(each)["conditions"][1:] == told


@pytest.mark.parametrize(("given", "told"), [("", "NameserverCreationFailed"), ("Other", "Other")])
def test_a_refused_write_is_reported_and_the_status_keeps_the_address(given: str, told: str) -> None:
    ip, refusal = {"ip": "192.0.2.53"}, Refusal("no Deployments for you", given)
    found = {**live_dnsconfig(generation=4), "status": {"nameserver": ip}}
    made = plans.failed(found, Observed([]), refusal, SETTINGS, is_denied=False)
    assert condition_of(made) == condition("NameserverReady", False, told, refusal.message, 4)
    assert status_of(made)["nameserver"] == ip
    assert made == Plan(status=made.status, notes=[Note("Warning", told, refusal.message)])


@pytest.mark.parametrize(
    ("nameserver", "live", "refused", "address"),
    [
        ({}, None, "Service", "192.0.2.53"),
        ({}, None, "Role", ""),
        ({}, UP, "Service", ""),
        ({"service": {"clusterIP": "192.0.2.99"}}, None, "Service", ""),
    ],
)
def test_an_address_counts_as_refused_if_the_new_service_that_has_it_is(
    nameserver: Object, live: Object | None, refused: str, address: str
) -> None:
    found, known = live_dnsconfig(nameserver=nameserver), NO_ADDRESSES.with_last(UP)
    refusal = Refusal("no", step=Child(child(plan(found, service=live, addresses=known), refused)))
    assert plans.refused_address(found, Observed([found], live, addresses=known), refusal, SETTINGS) == address


def test_a_deleted_dnsconfig_is_released() -> None:
    leaving = deleting(held(live_dnsconfig(nameserver={"replicas": -1})))
    assert plan(leaving, live_dnsconfig("other")) == Plan(steps=[], notes=[], release=FINALIZER)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["image", "key"]), inner, max_size=2),
)


@given(st.dictionaries(st.sampled_from(["image", "pod", "replicas", "service"]), VALUES))
def test_a_dnsconfig_with_any_spec_has_a_plan(nameserver: Object) -> None:
    made = plan(live_dnsconfig(nameserver=nameserver))
    assert (len(made.steps) == 5) is not bool(made.notes)


def farewell(*others: Object, status: str = "True", dns: DNSObjects | None = None) -> Plan:
    """Return the plan for a deleted DNSConfig. Its *status* says whether the operator wrote the stub domain."""
    written = condition("ClusterDNSConfigured", status, "Any", "")
    going = deleting(held({**live_dnsconfig(), "status": {"conditions": [written]}}))
    return plan(going, *others, dns=dns)


def test_a_deleted_dnsconfig_is_released_unless_a_stub_domain_of_ours_may_be_left() -> None:
    assert (farewell().release, farewell().requeue_after, farewell().status) == ("", 10, None)
    assert [note.reason for note in farewell().notes] == ["NotPermitted"]
    invalid = farewell(live_dnsconfig("other", nameserver={"replicas": -1}))
    wrong = farewell(live_dnsconfig("other", annotations={NAMESERVER: "mine"}))
    assert [(made.release, made.requeue_after) for made in (invalid, wrong)] == [("", 10)] * 2
    alone = farewell(status="False"), farewell(live_dnsconfig("other")), farewell(dns=DNSObjects())
    assert [(made.release, made.requeue_after) for made in alone] == [(FINALIZER, None)] * 3


@pytest.mark.parametrize("settles", [0, 8], ids=["rarely", "often"])
def test_a_deleted_dnsconfig_stays_while_the_removal_of_the_stub_domain_has_to_wait(settles: float) -> None:
    going, corefile = deleting(held(live_dnsconfig())), Key("kube-system", "coredns")
    removal = clusterdns.ClusterDNSPlan([Patch(CONFIGMAP, corefile, {"data": {"Corefile": ""}})])
    reverts = {corefile: Reverts(["Corefile"], "eks", 7, settles)}
    made = plans.plan(going, removal, Observed([going], dns=DNSObjects()), SETTINGS, reverts)
    assert (made.steps, made.release, made.requeue_after) == ([], "", 7)


def test_a_dnsconfig_is_requeued_while_the_configuration_of_the_clusters_dns_may_not_be_read() -> None:
    assert plan(live_dnsconfig(), service=UP).requeue_after == 10
    assert plan(live_dnsconfig()).requeue_after is None
