"""Whether a ProxyClass can be used."""

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.reconcilers.proxyclass import desired
from tsoperator.reconcilers.proxyclass.desired import Observed
from tsoperator.reconcilers.proxyclass.ports import Range
from tsoperator.runtime.plan import FindNodePorts, Note, Plan, Refusal

from tests.support.objects import condition_of, deleting, held, live_proxy_class, reasons_of

READY = condition("ProxyClassReady", True, "ProxyClassValid", "ProxyClassValid", 1)
MONITORED = {"metrics": {"enable": True, "serviceMonitor": {"enable": True}}}


def plan(spec: Object, observed: Observed | None = None) -> Plan:
    obj = live_proxy_class(spec=spec)
    return desired.plan(obj, ProxyClass.parse(obj), observed or Observed())


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
def test_a_class_that_is_valid_is_ready_and_held(spec: Object) -> None:
    made = plan(spec)
    assert (condition_of(made), made.hold, [*made.notes]) == (READY, FINALIZER, [])


def labelled(**labels: str) -> Object:
    """A class with labels for ServiceMonitors, which it doesn't ask for."""
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
def test_a_class_that_is_invalid_is_told_why(spec: Object, words: str) -> None:
    made = plan(spec)
    told = condition_of(made)
    message = told["message"]
    assert told == {**READY, "status": "False", "reason": "ProxyClassInvalid", "message": message}
    assert message.startswith("ProxyClass is not valid: ")
    assert words in message
    assert made.notes == [Note("Warning", "ProxyClassInvalid", message)]


def test_several_errors_are_a_list_in_which_each_stands_once() -> None:
    made = plan({"statefulSet": {"labels": {"a b": "x"}, "annotations": {"-": "x", "?": "x"}}})
    message = condition_of(made)["message"]
    assert message.startswith("ProxyClass is not valid: [.spec.statefulSet.labels: ")
    assert message.endswith("]")
    assert message.count("Invalid value") == 3


def test_an_invalid_class_is_held_and_warned_of_its_variables_too_unless_it_can_not_be_read() -> None:
    made = plan(in_pod(labels={"-": "x"}, tailscaleContainer={"env": [{"name": "TS_USERSPACE"}]}))
    assert (reasons_of(made), made.hold) == (["CustomTSEnvVar", "ProxyClassInvalid"], FINALIZER)
    assert plan({"metrics": {}}).hold == ""


def test_service_monitors_can_be_asked_for_where_there_are_some() -> None:
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
def test_a_class_asks_for_service_monitors_or_not(spec: Object, asks: bool) -> None:
    assert desired.asks_for_monitors(live_proxy_class(spec=spec)) is asks


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
def test_each_variable_that_the_image_reads_is_warned_of(env: list[str], words: list[str]) -> None:
    given = {"env": [{"name": name} for name in env]}
    made = plan(in_pod(tailscaleContainer=given))
    assert [(note.type, note.reason) for note in made.notes] == [("Warning", "CustomTSEnvVar")] * len(words)
    assert all(each in note.message for note, each in zip(made.notes, words, strict=True))
    assert all("configures the proxy itself" in note.message for note in made.notes if "AUTHKEY" not in note.message)
    assert condition_of(made) == READY


@pytest.mark.parametrize("name", ["TS_EXTRA_ARGS", "EXPERIMENTAL_TS_CONFIGFILE_PATH", "FOO"])
def test_a_variable_of_the_init_container_that_only_the_proxy_reads_is_told(name: str) -> None:
    made = plan(in_pod(tailscaleInitContainer={"env": [{"name": name}]}))
    notes = [(note.type, note.reason, note.once) for note in made.notes]
    assert notes == [("Warning", "IgnoredVariable", True)] * (name != "FOO")
    assert all(f"variable {name} of container sysctler" in note.message for note in made.notes)
    told = "; ".join(["ProxyClassValid", *(note.message for note in made.notes)])
    assert condition_of(made) == {**READY, "message": told}


@pytest.mark.parametrize("container", ["tailscaleContainer", "tailscaleInitContainer"])
def test_claims_that_nothing_can_meet_are_warned_of(container: str) -> None:
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


def test_node_ports_are_those_of_the_cluster() -> None:
    assert condition_of(plan(NODE_PORTS)) == READY
    message = condition_of(plan(NODE_PORTS, Observed(node_ports=Range(30000, 32767))))["message"]
    assert 'ports: Invalid value: "3001": 3001 is not among the cluster' in message


@pytest.mark.parametrize("spec", [{}, NODE_PORTS, {"metrics": {}}])
def test_a_class_that_is_deleted_is_let_go(spec: Object) -> None:
    obj = deleting(held(live_proxy_class(spec=spec)))
    assert desired.plan(obj, ProxyClass.parse(obj), Observed(asked_for_ports=False)) == Plan(release=FINALIZER)


def test_a_refusal_is_told_by_an_event_and_tried_again() -> None:
    refusal = Refusal("no finalizers for you", error=ValueError("403"))
    notes = [Note("Warning", "ProxyClassNotWritten", "no finalizers for you")]
    assert desired.failed(live_proxy_class(ready=True), refusal) == Plan(notes=notes, error=refusal.error)
    wanted = condition("ProxyClassReady", False, "ProxyClassNotWritten", refusal.message, 1)
    assert condition_of(desired.failed(live_proxy_class(), refusal)) == wanted
