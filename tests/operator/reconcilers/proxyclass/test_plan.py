"""The plan for a ProxyClass: whether it is valid, and the warnings about its parts."""

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.reconcilers.proxyclass import plan as plans
from tsoperator.reconcilers.proxyclass.plan import Observed
from tsoperator.reconcilers.proxyclass.ports import Range
from tsoperator.runtime.plan import FindNodePorts, Note, Plan, Refusal

from tests.support.objects import condition_of, deleting, held, live_proxy_class, reasons_of

READY = condition("ProxyClassReady", True, "ProxyClassValid", "ProxyClassValid", 1)
MONITORED = {"metrics": {"enable": True, "serviceMonitor": {"enable": True}}}


def plan(spec: Object, observed: Observed | None = None) -> Plan:
    obj = live_proxy_class(spec=spec)
    return plans.plan(obj, ProxyClass.parse(obj), observed or Observed())


def in_pod(**pod: object) -> Object:
    return {"statefulSet": {"pod": pod}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {
            "statefulSet": {
                "labels": {"team": "web", "example.org/tier": ""},
                "annotations": {"Example.org/note": "a b"},
            }
        },
        in_pod(tailscaleContainer={"image": "ghcr.my-repo/tailscale:v0.01testsomething", "env": [{"name": "FOO"}]}),
        in_pod(tailscaleContainer={"debug": {"enable": True}}, tailscaleInitContainer={"image": ""}),
        {"metrics": {"enable": False, "serviceMonitor": {"enable": False, "labels": {"a": "b", "b": ""}}}},
        {"staticEndpoints": {"nodePort": {"ports": [{"port": 3001}, {"port": 3005}], "selector": {}}}},
    ],
)
def test_a_valid_class_is_ready_and_gets_our_finalizer(spec: Object) -> None:
    made = plan(spec)
    assert (condition_of(made), made.hold, [*made.notes]) == (READY, FINALIZER, [])


def labelled(**labels: str) -> Object:
    """Return the spec of a class that has *labels* for ServiceMonitors but doesn't enable these."""
    return {"metrics": {"enable": False, "serviceMonitor": {"enable": False, "labels": labels}}}


IMAGE: Object = {"image": "FOO bar"}
RANGE: Object = {"staticEndpoints": {"nodePort": {"ports": [{"port": 3001, "endPort": 3000}]}}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"statefulSet": {"labels": {"a b": "x"}}}, '.spec.statefulSet.labels: Invalid value: "a b": a key is'),
        ({"statefulSet": {"annotations": {"?": "x"}}}, '.spec.statefulSet.annotations: Invalid value: "?": a key is'),
        (in_pod(labels={"-": "x"}), '.spec.statefulSet.pod.labels: Invalid value: "-": a key is'),
        (in_pod(annotations={"-": "x"}), '.spec.statefulSet.pod.annotations: Invalid value: "-": a key is'),
        (in_pod(tailscaleContainer=IMAGE), 'pod.tailscaleContainer.image: Invalid value: "FOO bar": only the registry'),
        (in_pod(tailscaleInitContainer=IMAGE), "pod.tailscaleInitContainer.image: Invalid value"),
        (
            in_pod(tailscaleInitContainer={"debug": {}}),
            'spec.statefulSet.pod.tailscaleInitContainer.debug: Invalid value: {"enable": false}: tailscaled doesn',
        ),
        (
            MONITORED,
            'spec.metrics.serviceMonitor: Invalid value: "enable": the cluster has no ServiceMonitors: install the CRD '
            "servicemonitors.monitoring.coreos.com",
        ),
        (labelled(**{"bar!": ""}), ".spec.metrics.serviceMonitor.labels: Invalid value"),
        (labelled(a="bar!"), "spec.metrics.serviceMonitor.labels.a must be empty, or letters, digits"),
        ({"metrics": {"enable": False, "serviceMonitor": {"enable": True}}}, "set metrics.enable to true"),
        (RANGE, 'spec.staticEndpoints.nodePort.ports: Invalid value: "3001-3000": 3001-3000 is no range of ports'),
        ({"statefulSet": {"labels": {"team": "?!someVal"}}}, "labels.team must be empty, or letters, digits"),
    ],
)
def test_the_condition_and_an_event_say_why_a_class_is_invalid(spec: Object, words: str) -> None:
    made = plan(spec)
    told = condition_of(made)
    message = told["message"]
    assert told == {**READY, "status": "False", "reason": "ProxyClassInvalid", "message": message}
    assert message.startswith("ProxyClass is not valid: ")
    assert words in message
    assert made.notes == [Note("Warning", "ProxyClassInvalid", message)]


def test_the_message_about_several_errors_lists_each_of_them_once() -> None:
    made = plan({"statefulSet": {"labels": {"a b": "x"}, "annotations": {"-": "x", "?": "x"}}})
    message = condition_of(made)["message"]
    assert message.startswith("ProxyClass is not valid: [.spec.statefulSet.labels: ")
    assert message.endswith("]")
    assert message.count("Invalid value") == 3


def test_an_invalid_class_gets_our_finalizer_and_warnings_unless_it_cannot_be_parsed() -> None:
    made = plan(in_pod(labels={"-": "x"}, tailscaleContainer={"env": [{"name": "TS_USERSPACE"}]}))
    assert (reasons_of(made), made.hold) == (["CustomTSEnvVar", "ProxyClassInvalid"], FINALIZER)
    assert plan({"metrics": {}}).hold == ""


def test_a_class_may_ask_for_service_monitors_if_the_cluster_serves_that_kind() -> None:
    assert condition_of(plan(MONITORED, Observed(serves_monitors=True))) == READY


@pytest.mark.parametrize(
    ("spec", "asks"),
    [
        (MONITORED, True),
        ({"metrics": {"enable": True, "serviceMonitor": {"enable": False}}}, False),
        ({"metrics": {"enable": True}}, False),
        ({}, False),
        ({"metrics": {}}, False),
    ],
)
def test_a_class_asks_for_service_monitors_only_if_it_enables_them(spec: Object, asks: bool) -> None:
    assert plans.asks_for_monitors(live_proxy_class(spec=spec)) is asks


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (["TS_USERSPACE"], ["TS_USERSPACE of container tailscale configures the proxy itself"]),
        (["TS_AUTHKEY"], ["TS_AUTHKEY of container tailscale keeps proxies from starting"]),
        (
            ["EXPERIMENTAL_TS_CONFIGFILE_PATH", "experimental_allow_proxying_cluster_traffic_via_ingress"],
            ["EXPERIMENTAL_TS_CONFIGFILE_PATH", "experimental_allow_proxying_cluster_traffic_via_ingress"],
        ),
        (["FOO", "ts_userspace"], []),
    ],
)
def test_an_event_warns_of_each_variable_that_the_image_itself_reads(env: list[str], words: list[str]) -> None:
    given = {"env": [{"name": name} for name in env]}
    made = plan(in_pod(tailscaleContainer=given))
    assert [(note.type, note.reason) for note in made.notes] == [("Warning", "CustomTSEnvVar")] * len(words)
    assert all(each in note.message for note, each in zip(made.notes, words, strict=True))
    assert all("configures the proxy itself" in note.message for note in made.notes if "AUTHKEY" not in note.message)
    assert condition_of(made) == READY


@pytest.mark.parametrize("name", ["TS_EXTRA_ARGS", "EXPERIMENTAL_TS_CONFIGFILE_PATH", "FOO"])
def test_an_init_container_with_a_variable_that_only_the_proxy_reads_causes_a_warning(name: str) -> None:
    made = plan(in_pod(tailscaleInitContainer={"env": [{"name": name}]}))
    notes = [(note.type, note.reason, note.once) for note in made.notes]
    assert notes == [("Warning", "IgnoredVariable", True)] * (name != "FOO")
    assert all(f"variable {name} of container sysctler" in note.message for note in made.notes)
    told = "; ".join(["ProxyClassValid", *(note.message for note in made.notes)])
    assert condition_of(made) == {**READY, "message": told}


@pytest.mark.parametrize("container", ["tailscaleContainer", "tailscaleInitContainer"])
def test_an_event_warns_of_resource_claims_that_have_no_effect(container: str) -> None:
    made = plan(in_pod(**{container: {"resources": {"claims": [{"name": "gpu"}]}}}))
    (note,) = made.notes
    assert (note.type, note.reason) == ("Warning", "ResourceClaimsIgnored")
    assert f"spec.statefulSet.pod.{container}.resources.claims is ignored" in note.message
    assert condition_of(made) == READY


NODE_PORTS = {"staticEndpoints": {"nodePort": {"ports": [{"port": 3001}]}}}


def test_the_cluster_is_asked_for_its_node_ports_by_the_first_class_that_needs_them() -> None:
    asking, unasked = Plan(hold=FINALIZER, steps=[FindNodePorts()], requeue_after=0), Observed(asked_for_ports=False)
    assert plan(NODE_PORTS, unasked) == asking
    assert condition_of(plan({}, unasked)) == READY


def test_a_class_is_invalid_if_a_node_port_is_outside_of_the_clusters_range() -> None:
    assert condition_of(plan(NODE_PORTS)) == READY
    message = condition_of(plan(NODE_PORTS, Observed(node_ports=Range(30000, 32767))))["message"]
    assert 'ports: Invalid value: "3001": 3001 is not among the cluster' in message


@pytest.mark.parametrize("spec", [{}, NODE_PORTS, {"metrics": {}}])
def test_a_deleted_class_is_released(spec: Object) -> None:
    obj = deleting(held(live_proxy_class(spec=spec)))
    assert plans.plan(obj, ProxyClass.parse(obj), Observed(asked_for_ports=False)) == Plan(release=FINALIZER)


def test_a_refused_write_is_reported_by_an_event_and_tried_again() -> None:
    refusal = Refusal("no finalizers for you", error=ValueError("403"))
    notes = [Note("Warning", "ProxyClassNotWritten", "no finalizers for you")]
    assert plans.failed(live_proxy_class(ready=True), refusal) == Plan(notes=notes, error=refusal.error)
    wanted = condition("ProxyClassReady", False, "ProxyClassNotWritten", refusal.message, 1)
    assert condition_of(plans.failed(live_proxy_class(), refusal)) == wanted
