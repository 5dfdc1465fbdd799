"""The plan for a DNSConfig: its nameserver, its status and its Events."""

from collections.abc import Mapping
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

from tests.support.objects import children_of, deleting, held, live_dnsconfig, obj, settings, status_of

SETTINGS = settings()
OURS = settings(nameserver_image="example.org/tsnameserver:v1")
THEIRS = settings(nameserver_image="tailscale/k8s-nameserver:stable")
UNKNOWN = settings(nameserver_image="example.org/k8s-nameserver:v1")
NAMESERVER = "tailscale.com/nameserver"
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


def test_every_child_of_a_dnsconfig_is_in_the_operators_namespace_and_owned_by_the_dnsconfig() -> None:
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


def test_the_nameserver_has_only_the_right_to_read_configmaps() -> None:
    made = plan(live_dnsconfig())
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    assert child(made, "Role")["rules"] == [rule]
    binding = child(made, "RoleBinding")
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "nameserver"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "nameserver", "namespace": "tailscale"}]


def test_a_nameserver_with_our_image_has_probes_is_unprivileged_and_is_replaced_without_a_gap() -> None:
    spec = deployment_spec(of=OURS)
    (container,) = pod_of(spec)["containers"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert (spec["minReadySeconds"], container["args"]) == (5, ["--drain=10"])
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert [port["name"] for port in container["ports"]] == ["tcp", "udp", "health", "metrics"]
    assert container["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("example.org/tsnameserver:v1", "IfNotPresent"),
        ("example.org/tsnameserver:latest", "Always"),
        (f"example.org/tsnameserver:latest@sha256:{'1f' * 32}", "IfNotPresent"),
        ("tailscale/k8s-nameserver:latest", "IfNotPresent"),
    ],
)
def test_a_node_pulls_the_nameserver_image_each_time_only_if_the_image_is_ours_and_tagged_latest(
    image: str, policy: str
) -> None:
    (container,) = pod_of(deployment_spec(of=settings(nameserver_image=image)))["containers"]
    assert (container["image"], container["imagePullPolicy"]) == (image, policy)


SNAPSHOT = ({"name": "snapshot", "emptyDir": {}}, "/snapshot")
MOUNTED = ({"name": "dnsrecords", "configMap": {"name": "dnsrecords"}}, "/config")


@pytest.mark.parametrize(("of", "volume", "path"), [(OURS, *SNAPSHOT), (THEIRS, *MOUNTED), (UNKNOWN, *MOUNTED)])
def test_our_nameserver_image_keeps_a_snapshot_and_other_images_mount_the_records(
    of: Settings, volume: Object, path: str
) -> None:
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
def test_the_nameservers_deployment_has_the_replicas_and_the_image_of_the_dnsconfig(replicas: int) -> None:
    spec = deployment_spec({"replicas": replicas, "image": {"repo": "example.org/ns", "tag": "v2"}})
    assert (spec["replicas"], pod_of(spec)["containers"][0]["image"]) == (replicas, "example.org/ns:v2")


def test_the_nameservers_pods_have_the_placement_that_the_dnsconfig_asks_for() -> None:
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
def test_an_omitted_or_empty_field_of_placement_in_a_dnsconfig_adds_nothing_to_the_nameservers_pods(
    pod: Object,
) -> None:
    assert pod_of(deployment_spec({"pod": pod})) == pod_of(deployment_spec())


class Rollout(NamedTuple):
    """A status of the Deployment, the number of its Pods with our image, and whether the Service selects only these."""

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
        Rollout(3, 2, 2, 2, alone=False, wanted=2),  # the second new Pod isn't ready, and perhaps never will be
        Rollout(3, 2, 3, 2, alone=True, wanted=2),
        Rollout(3, 1, 2, 1, alone=False),  # there are two old Pods, and only one is wanted
        Rollout(2, 1, 2, 0, alone=False, of=SETTINGS),
        Rollout(2, 1, 2, 1, alone=False, seen=0),
    ],
)
def test_the_service_selects_only_our_pods_while_a_nameserver_of_the_go_operator_is_replaced(case: Rollout) -> None:
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
def test_the_cluster_ip_in_a_dnsconfigs_spec_has_an_effect_only_when_the_service_is_made(
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


def records(left_out: str = "") -> Object:
    """Return the ConfigMap of records, which says that it leaves out *left_out* names."""
    notes = {"tailscale.com/records-left-out": left_out}
    return obj(CONFIGMAP, Key("tailscale", "dnsrecords"), annotations=notes if left_out else {})


def deployment(**counts: int) -> Object:
    content = {"spec": deployment_spec(of=OURS), "status": {"readyReplicas": 1, **counts}}
    return obj(DEPLOYMENT, KEY, content, generation=1)


ROLLED_OUT = deployment(observedGeneration=1, replicas=1, updatedReplicas=1, availableReplicas=1)


class Told(NamedTuple):
    """The facts about a nameserver, and the condition that the plan for them must report.

    The condition has this *type* and *reason*, and its message *begins* and *ends* with these words. If the reason is
    empty, the plan must report no such condition. *works* tells whether the plan reports that the nameserver is ready.
    *facts* are the differences from the facts about a ready nameserver. *was* is the earlier status of the condition.
    """

    type: str
    reason: str
    begins: str = ""
    ends: str = ""
    works: bool = True
    facts: Mapping[str, Any] = {}
    of: Settings = OURS
    image: str = ""
    said: str = ""
    was: str = ""


READY, LOST, LEFT_OUT = "NameserverReady", "NameserverComplete", "RecordsComplete"
CREATED, PENDING, THEIRS_RUNS = "NameserverCreated", "NameserverPending", "UpstreamImage"
FULL, NO_POD = {"records": records("12"), "deployment": ROLLED_OUT}, "no Pod of the nameserver is ready"
SET_OURS = (
    "set spec.nameserver.image to this operator's nameserver and annotation tailscale.com/nameserver to tsnameserver"
)
SAYS = "the nameserver answers at 192.0.2.53"
TOLD = {
    "ready": Told(READY, CREATED, SAYS),
    "not ready": Told(
        READY, PENDING, f"{NO_POD}: if that lasts, see why with ", works=False, facts={"deployment": None}
    ),
    "not ready any more": Told(
        READY, PENDING, NO_POD, works=False, facts={"deployment": None, "nameserver": None}, was="True"
    ),
    "no replicas": Told(
        READY, "NoReplicas", "spec.nameserver.replicas is 0, so no name resolves", works=False,
        facts={"deployment": {**deployment(), "spec": {**deployment()["spec"], "replicas": 0}, "status": {}}},
    ),
    "silent": Told(READY, PENDING, "the nameserver is silent", works=False, facts={"nameserver": SILENT}, was="True"),
    "not asked": Told(
        READY, PENDING, "the operator hasn't asked the nameserver yet", works=False, facts={"nameserver": None},
        was="False",
    ),
    "ready for an earlier leader": Told(READY, CREATED, SAYS, facts={"nameserver": None}, was="True"),
    "names left out by the Go operator's image": Told(
        LEFT_OUT, "TooManyNames",
        "12 names don't resolve: tailscale/k8s-nameserver:stable reads one ConfigMap, and it is full: set ",
        "spec.nameserver.image to this operator's nameserver, which reads several",
        facts=FULL, of=SETTINGS,
    ),
    "names left out by an unknown image": Told(
        LEFT_OUT, "TooManyNames",
        "12 names don't resolve: mirror.org/ns:stable may read only one ConfigMap, and it is full: if it is this ",
        "operator's nameserver, set annotation tailscale.com/nameserver to tsnameserver",
        facts=FULL, image="mirror.org/ns",
    ),
    "names left out of all shards": Told(
        LEFT_OUT, "TooManyNames", "12 names don't resolve: 32 ConfigMaps are full, and there can't be more", facts=FULL
    ),
    "names left out during a rollout": Told(
        LEFT_OUT, "TooManyNames",
        "12 names don't resolve: one ConfigMap is full, and there will be more when all Pods of Deployment nameserver ",
        "run example.org/tsnameserver:v1: see what its rollout waits for",
        facts={"records": records("12"), "deployment": deployment()},
    ),
    "no names left out any more": Told(LEFT_OUT, "", facts={"records": records()}, was="False"),
    "the Go operator's image": Told(
        LOST, THEIRS_RUNS,
        "tailscale/k8s-nameserver:stable is Tailscale's nameserver: changes reach it up to two minutes late; ",
        f". To mend that, {SET_OURS}", of=SETTINGS,
    ),
    "the Go operator's image instead of ours": Told(
        LOST, THEIRS_RUNS,
        "tailscale/k8s-nameserver:stable is Tailscale's nameserver: it refuses names in tail.example.org; changes ",
        ". To mend that, take spec.nameserver.image away to get example.org/tsnameserver:v1",
        of=replace(OURS, zones=("tail.example.org", "ts.net")), image="tailscale/k8s-nameserver",
    ),
    "an image said to be Tailscale's": Told(
        LOST, THEIRS_RUNS, "example.org/tsnameserver:v1 is Tailscale's nameserver: ", SET_OURS, said="k8s-nameserver"
    ),
    "an unknown image": Told(
        LOST, "UnknownImage", "mirror.org/ns:stable may be this operator's nameserver or Tailscale's",
        "set annotation tailscale.com/nameserver of this DNSConfig to tsnameserver or k8s-nameserver",
        image="mirror.org/ns",
    ),
    "an image said to be ours": Told(LOST, "", image="mirror.org/ns", said="tsnameserver"),
    "our image again": Told(LOST, "", was="False"),
}  # fmt: skip


@pytest.mark.parametrize("case", TOLD.values(), ids=TOLD)
def test_the_conditions_say_whether_the_nameserver_works_and_which_part_is_missing(case: Told) -> None:
    image, said = {"image": {"repo": case.image}} if case.image else {}, {NAMESERVER: case.said} if case.said else {}
    before = condition(case.type, case.was, "Any", "") | {"lastTransitionTime": "2026-01-02T03:04:05Z"}
    found = live_dnsconfig(nameserver=image, generation=4, annotations=said)
    found["status"] = {"conditions": [before] if case.was else []}
    status = status_of(plan(found, of=case.of, **{**WORKING, **case.facts}))
    told = {each["type"]: each for each in status["conditions"]}
    assert (told[READY]["status"], status["nameserver"]) == (str(case.works), {"ip": "192.0.2.53"})
    shown = told.get(case.type) or condition(case.type, False, "", "", 4)
    wanted = (str(case.works and case.type == READY), case.reason, 4)
    assert tuple(shown[name] for name in ("status", "reason", "observedGeneration")) == wanted
    assert (shown["message"].startswith(case.begins), shown["message"].endswith(case.ends)) == (True, True)


@pytest.mark.parametrize("service", [None, UP])
def test_the_creation_of_the_nameservers_service_waits_a_second_for_the_zones(
    service: Object | None,
) -> None:
    made = plan(live_dnsconfig(), service=service, suffixes=Suffixes(pending=True))
    kinds = [each["kind"] for each in children_of(made)]
    assert (kinds[:-3], made.status, made.requeue_after) == ([*["Service"] * bool(service), "ServiceAccount"], None, 1)


@pytest.mark.parametrize("service", [None, live_service(), live_service(clusterIP="None")])
def test_the_status_of_a_dnsconfig_is_not_written_until_the_nameservers_service_has_an_address(
    service: Object | None,
) -> None:
    assert plan(live_dnsconfig(), service=service).status is None


MIRRORED: Object = {"image": {"repo": "mirror.org/ns"}}


def test_an_unknown_nameserver_image_runs_with_the_same_deployment_as_the_go_operators_image() -> None:
    said = live_dnsconfig(nameserver=MIRRORED, annotations={NAMESERVER: "k8s-nameserver"})
    assert deployment_spec(MIRRORED, OURS) == child(plan(said, of=OURS), "Deployment")["spec"]


def test_a_nameserver_image_that_the_annotation_calls_ours_gets_a_readiness_probe() -> None:
    made = plan(live_dnsconfig(nameserver=MIRRORED, annotations={NAMESERVER: "tsnameserver"}), service=UP, of=OURS)
    (container,) = pod_of(child(made, "Deployment")["spec"])["containers"]
    assert (container["image"], "readinessProbe" in container) == ("mirror.org/ns:v1", True)


OLD, NEW = (
    live_dnsconfig(name, creationTimestamp=f"2026-01-0{day}T00:00:00Z", generation=4)
    for day, name in enumerate(("old", "new"), 1)
)
FAULTY, MINE = live_dnsconfig(nameserver={"replicas": -1}), live_dnsconfig(annotations={NAMESERVER: "mine"})
HALF = live_dnsconfig(nameserver={"image": {"repo": "https://mirror.org/ns", "tag": "v1"}})
HEADLESS = live_dnsconfig(nameserver={"service": {"clusterIP": "None"}})
SILENCE = ("False", "NoAnswer", "silence")
UNASKED = ("Unknown", "NotAsked", "the operator asks the cluster's DNS when the nameserver has an address")


class Refused(NamedTuple):
    """A DNSConfig that can't take effect, or one for which the API server has refused a step (*refusal*).

    Its condition NameserverReady must have this *reason* and these *words*. *answers* is the expected condition
    ClusterDNSReady; if *answers* is None, there must be no such condition. *others* are the other DNSConfigs, and
    *service* is the nameserver's Service; None if it doesn't exist.
    """

    found: Object
    reason: str
    words: str
    answers: tuple[str, str, str] | None = SILENCE
    others: tuple[Object, ...] = ()
    service: Object | None = UP
    refusal: Refusal | None = None


MULTIPLE, INVALID, FAILED = "MultipleDNSConfigsPresent", "NameserverInvalid", "NameserverCreationFailed"
REFUSED = {
    "the younger of two": Refused(NEW, MULTIPLE, "'old' is older: delete one of the two", None, (OLD,)),
    "an invalid one": Refused(FAULTY, INVALID, "spec.nameserver.replicas must be at least 0"),
    "with a wrong annotation": Refused(MINE, INVALID, 'annotation tailscale.com/nameserver is "mine": write '),
    "with a wrong image": Refused(
        HALF, INVALID, 'spec.nameserver.image: "https://mirror.org/ns:v1": this is not the n'
    ),
    "headless": Refused(
        HEADLESS, INVALID, "spec.nameserver.service.clusterIP is None: give a free", UNASKED, service=None
    ),
    "an invalid one without a nameserver": Refused(FAULTY, INVALID, "must be at least 0", UNASKED, service=None),
    "a write": Refused(OLD, FAILED, "no", refusal=Refusal("no")),
    "a write, with a reason": Refused(OLD, "Other", "no", refusal=Refusal("no", "Other")),
    "a write, without a nameserver": Refused(OLD, FAILED, "no", UNASKED, service=None, refusal=Refusal("no")),
    "a write for the younger of two": Refused(NEW, FAILED, "no", None, (OLD,), refusal=Refusal("no")),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_dnsconfig_reports_a_refusal_beside_the_answers_of_the_clusters_dns_and_no_child_is_written(
    case: Refused,
) -> None:
    verdicts, of = [ServerVerdict("ts.net", "192.0.2.10", "NoAnswer", "silence")], settings(cluster_dns=("192.0.2.10",))
    found, ip = {**case.found, "metadata": {**case.found["metadata"], "generation": 4}}, {"ip": "192.0.2.99"}
    found["status"] = {"nameserver": ip}
    observed = Observed([found, *case.others], case.service, verdicts=verdicts)
    made = plan(found, *case.others, of=of, service=case.service, verdicts=verdicts)
    if case.refusal:
        made = plans.failed(found, observed, case.refusal, of, is_denied=True)
    ready, *answers = status_of(made)["conditions"]
    assert ready == condition(READY, False, case.reason, ready["message"], 4) | {"lastTransitionTime": ""}
    assert (case.words in ready["message"], status_of(made)["nameserver"]) == (True, ip)
    assert answers == (
        [condition("ClusterDNSReady", *case.answers, 4) | {"lastTransitionTime": ""}] if case.answers else []
    )
    assert made == Plan(status=made.status, notes=[Note("Warning", case.reason, ready["message"])])


def test_after_a_refused_write_into_the_clusters_dns_the_plan_reports_the_refusal_and_writes_no_child() -> None:
    refusal = Refusal("no", step=Patch(CONFIGMAP, Key("kube-system", "coredns"), {}))
    made = plans.failed(OLD, Observed([OLD], UP), refusal, settings(), is_denied=True)
    assert ([*made.steps], [each.reason for each in made.notes]) == ([], ["NotPermitted"])


def test_the_younger_of_two_dnsconfigs_does_not_change_the_plan_for_the_older() -> None:
    assert plan(OLD, NEW).steps == plan(OLD).steps


@pytest.mark.parametrize(
    ("nameserver", "live", "refused", "address"),
    [
        ({}, None, "Service", "192.0.2.53"),
        ({}, None, "Role", ""),
        ({}, UP, "Service", ""),
        ({"service": {"clusterIP": "192.0.2.99"}}, None, "Service", ""),
    ],
)
def test_the_chosen_cluster_ip_counts_as_refused_if_the_api_server_refuses_the_new_service(
    nameserver: Object, live: Object | None, refused: str, address: str
) -> None:
    found, known = live_dnsconfig(nameserver=nameserver), NO_ADDRESSES.with_last(UP)
    refusal = Refusal("no", step=Child(child(plan(found, service=live, addresses=known), refused)))
    assert plans.refused_address(found, Observed([found], live, addresses=known), refusal, SETTINGS) == address


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["image", "key"]), inner, max_size=2),
)


@given(st.dictionaries(st.sampled_from(["image", "pod", "replicas", "service"]), VALUES))
def test_the_operator_can_make_a_plan_for_a_dnsconfig_with_any_spec(nameserver: Object) -> None:
    made = plan(live_dnsconfig(nameserver=nameserver))
    assert (len(made.steps) == 5) is not bool(made.notes)


@pytest.mark.parametrize(
    ("others", "status", "dns", "stays"),
    [
        ([], "True", None, True),
        ([FAULTY], "True", None, True),
        ([MINE], "True", None, True),
        ([], "False", None, False),
        ([OLD], "True", None, False),
        ([], "True", DNSObjects(), False),
    ],
)
def test_a_deleted_dnsconfig_keeps_its_finalizer_only_while_our_stub_domain_could_remain(
    others: list[Object], status: str, dns: DNSObjects | None, stays: bool
) -> None:
    going = deleting(held(live_dnsconfig(nameserver={"replicas": -1})))
    going["status"] = {"conditions": [condition("ClusterDNSConfigured", status, "Any", "")]}
    made = plan(going, *others, dns=dns)
    assert (made.steps, made.status, made.requeue_after) == ([], None, 10 if stays else None)
    assert (made.release, [note.reason for note in made.notes]) == (
        ("", ["NotPermitted"]) if stays else (FINALIZER, [])
    )


@pytest.mark.parametrize("settles", [0, 8], ids=["rarely", "often"])
def test_a_deleted_dnsconfig_stays_while_the_removal_of_the_stub_domain_has_to_wait(settles: float) -> None:
    going, corefile = deleting(held(live_dnsconfig())), Key("kube-system", "coredns")
    removal = clusterdns.ClusterDNSPlan([Patch(CONFIGMAP, corefile, {"data": {"Corefile": ""}})])
    reverts = {corefile: Reverts(["Corefile"], "eks", 7, settles)}
    made = plans.plan(going, removal, Observed([going], dns=DNSObjects()), SETTINGS, reverts)
    assert (made.steps, made.release, made.requeue_after) == ([], "", 7)


def test_a_dnsconfig_is_requeued_while_the_operator_is_not_allowed_to_read_the_clusters_dns() -> None:
    assert plan(live_dnsconfig(), service=UP).requeue_after == 10
    assert plan(live_dnsconfig()).requeue_after is None
