"""The plan for a ProxyClass: whether it is valid, and the warnings about its parts."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.reconcilers.proxyclass import plan as plans
from tsoperator.reconcilers.proxyclass.plan import Observed
from tsoperator.reconcilers.proxyclass.ports import Range
from tsoperator.runtime.plan import FindNodePorts, Note, Plan, Refusal

from tests.support.objects import condition_of, deleting, held, live_proxy_class
from tests.support.rows import Row, Said, play

READY = condition("ProxyClassReady", True, "ProxyClassValid", "ProxyClassValid", 1)
MONITORED = {"metrics": {"enable": True, "serviceMonitor": {"enable": True}}}


def plan(spec: Object, observed: Observed | None = None) -> Plan:
    obj = live_proxy_class(spec=spec)
    return plans.plan(obj, ProxyClass.parse(obj), observed or Observed())


def in_set(**parts: object) -> Object:
    return {"statefulSet": parts}


def in_pod(**parts: object) -> Object:
    return in_set(pod=parts)


def proxy(**container: object) -> Object:
    return in_pod(tailscaleContainer=container)


def init(**container: object) -> Object:
    return in_pod(tailscaleInitContainer=container)


def env(*names: str) -> list[Object]:
    return [{"name": name} for name in names]


def monitor(enable: bool, labels: Object, metrics: bool = False) -> Object:
    return {"metrics": {"enable": metrics, "serviceMonitor": {"enable": enable, "labels": labels}}}


def ports(*given: Object) -> Object:
    return {"staticEndpoints": {"nodePort": {"ports": [*given], "selector": {}}}}


class Case(NamedTuple):
    """A ProxyClass, words of the message about its *fault*, and the *events* that warn about other parts of it.

    Without a fault, *fault* is empty. Each Event is a reason and words of its message. *hold* is the finalizer that the
    plan adds. If a test on a cluster can't show the case, *apart* says why.
    """

    spec: Object
    fault: str = ""
    events: Sequence[tuple[str, str]] = ()
    observed: Observed = Observed()
    hold: str = FINALIZER
    apart: str = ""

    def check(self, said: Said) -> None:
        status, _, message = said.ready()
        assert (status, self.fault in message) == (str(not self.fault), True), message
        assert said.reasons == sorted(
            {reason for reason, _ in self.events} | ({"ProxyClassInvalid"} if self.fault else set())
        )


READ, INIT, CLAIMS = "CustomTSEnvVar", "IgnoredVariable", "ResourceClaimsIgnored"
CONFIGFILE, FORWARD = "EXPERIMENTAL_TS_CONFIGFILE_PATH", "experimental_allow_proxying_cluster_traffic_via_ingress"
READS, IGNORES = "of container tailscale configures the proxy itself", "of container sysctler"
GPU = {"claims": [{"name": "gpu"}]}
OUTSIDE = Observed(node_ports=Range(30000, 32767))
SEVERAL = in_set(labels={"a b": "x"}, annotations={"-": "x", "?": "x"})
CASES = {
    "empty": Case({}),
    "labels": Case(in_set(labels={"team": "web", "example.org/tier": ""}, annotations={"Example.org/note": "a b"})),
    "image and variable": Case(proxy(image="ghcr.my-repo/tailscale:v0.01testsomething", env=env("FOO"))),
    "debug and no image": Case(
        in_pod(tailscaleContainer={"debug": {"enable": True}}, tailscaleInitContainer={"image": ""})
    ),
    "labels of a monitor": Case(monitor(False, {"a": "b", "b": ""})),
    "ports": Case(ports({"port": 30001}, {"port": 30005})),
    "monitor": Case(MONITORED, observed=Observed(serves_monitors=True), apart="the cluster has no CRD of Prometheus"),
    "bad label": Case(in_set(labels={"a b": "x"}), '.spec.statefulSet.labels: Invalid value: "a b": a key is'),
    "bad value": Case(in_set(labels={"team": "?!someVal"}), "labels.team must be empty, or letters, digits", hold=""),
    "bad note": Case(in_set(annotations={"?": "x"}), '.spec.statefulSet.annotations: Invalid value: "?": a key is'),
    "bad Pod label": Case(in_pod(labels={"-": "x"}), '.spec.statefulSet.pod.labels: Invalid value: "-": a key is'),
    "bad Pod note": Case(in_pod(annotations={"-": "x"}), '.statefulSet.pod.annotations: Invalid value: "-": a key is'),
    "bad node": Case(in_pod(nodeSelector={"os": "a b"}), '.statefulSet.pod.nodeSelector: Invalid value: "a b"'),
    "tolerations": Case(in_pod(tolerations=[{"operator": "Exists", "effect": "NoSchedule"}, {"key": "a"}])),
    "bad operator": Case(
        in_pod(tolerations=[{}, {"operator": "Exist"}]),
        '.spec.statefulSet.pod.tolerations[1].operator: Invalid value: "Exist": write Equal, Exists, Gt or Lt',
    ),
    "bad effect": Case(in_pod(tolerations=[{"effect": "noSchedule"}]), "write NoSchedule, PreferNoSchedule or NoExec"),
    "bad image": Case(proxy(image="FOO bar"), 'pod.tailscaleContainer.image: Invalid value: "FOO bar": only the regis'),
    "bad init image": Case(init(image="FOO bar"), "pod.tailscaleInitContainer.image: Invalid value"),
    "request": Case(proxy(resources={"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": 1}})),
    "request of all that is allowed": Case(proxy(resources={"requests": {"cpu": 1}, "limits": {"cpu": "1000m"}})),
    "large request": Case(
        init(resources={"requests": {"memory": "1Gi", "cpu": 1}, "limits": {"memory": "1G", "cpu": "1000m"}}),
        '.pod.tailscaleInitContainer.resources.requests.memory: Invalid value: "1Gi": the limit is 1G, and a request',
    ),
    "debugs init": Case(
        init(debug={}),
        'spec.statefulSet.pod.tailscaleInitContainer.debug: Invalid value: {"enable": false}: tailscaled doesn',
    ),
    "no monitors": Case(
        MONITORED,
        'spec.metrics.serviceMonitor: Invalid value: "enable": the cluster has no ServiceMonitors: install the CRD '
        "servicemonitors.monitoring.coreos.com",
    ),
    "bad monitor label": Case(monitor(False, {"bar!": ""}), ".spec.metrics.serviceMonitor.labels: Invalid value"),
    "bad monitor value": Case(monitor(False, {"a": "bar!"}), "serviceMonitor.labels.a must be empty, or l", hold=""),
    "monitor alone": Case(monitor(True, {}), "set metrics.enable to true"),
    "bad range": Case(
        ports({"port": 30001, "endPort": 30000}),
        'ports: Invalid value: "30001-30000": 30001-30000 is no range of ports',
    ),
    "outside": Case(ports({"port": 3001}), 'ports: Invalid value: "3001": 3001 is not among the cluster', (), OUTSIDE),
    "not parsed": Case({"metrics": {}}, "metrics.enable", hold=""),
    "several faults": Case(SEVERAL, "[.spec.statefulSet.labels: "),
    "fault and warning": Case(
        in_pod(labels={"-": "x"}, tailscaleContainer={"env": env("TS_USERSPACE")}), "pod.labels", [(READ, READS)]
    ),
    "variable": Case(proxy(env=env("TS_USERSPACE")), "", [(READ, f"TS_USERSPACE {READS}")]),
    "auth key": Case(
        proxy(env=env("TS_AUTHKEY")), "", [(READ, "TS_AUTHKEY of container tailscale keeps proxies from starting")]
    ),
    "variables": Case(
        proxy(env=env(CONFIGFILE, FORWARD)), "", [(READ, f"{CONFIGFILE} {READS}"), (READ, f"{FORWARD} {READS}")]
    ),
    "own variables": Case(proxy(env=env("FOO", "ts_userspace"))),
    "init variable": Case(init(env=env("TS_EXTRA_ARGS")), "", [(INIT, f"variable TS_EXTRA_ARGS {IGNORES}")]),
    "init variable of Go": Case(init(env=env(CONFIGFILE)), "", [(INIT, f"variable {CONFIGFILE} {IGNORES}")]),
    "own init variable": Case(init(env=env("FOO"))),
    "claims": Case(proxy(resources=GPU), "", [(CLAIMS, "pod.tailscaleContainer.resources.claims is ignored")]),
    "init claims": Case(init(resources=GPU), "", [(CLAIMS, "pod.tailscaleInitContainer.resources.claims is ignored")]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_operator_reports_what_is_wrong_with_a_class_but_adds_its_finalizer_to_each_readable_class(
    case: Case,
) -> None:
    made = plan(case.spec, case.observed)
    warnings = made.notes[: len(case.events)]
    assert [(note.type, note.reason) for note in warnings] == [("Warning", reason) for reason, _ in case.events]
    assert [words for note, (_, words) in zip(warnings, case.events, strict=True) if words not in note.message] == []
    kept = [note.message for note in warnings if note.once]
    assert len(kept) == [reason for reason, _ in case.events].count(INIT)
    told, message = condition_of(made), "; ".join(["ProxyClassValid", *kept])
    if case.fault:
        message = told["message"]
        assert message.startswith("ProxyClass is not valid: ")
        assert case.fault in message
        assert made.notes[len(warnings) :] == [Note("Warning", "ProxyClassInvalid", message)]
        assert told == {**READY, "status": "False", "reason": "ProxyClassInvalid", "message": message}
    else:
        assert (told, made.notes[len(warnings) :]) == ({**READY, "message": message}, [])
    assert made.hold == case.hold


@pytest.mark.virtual_time
async def test_a_class_on_a_cluster_has_the_status_and_the_events_of_its_plan() -> None:
    await play(
        {name: Row(live_proxy_class(spec=case.spec), case.check, apart=case.apart) for name, case in CASES.items()}
    )


def test_the_message_about_several_errors_of_a_class_lists_each_error_once() -> None:
    message = condition_of(plan(SEVERAL))["message"]
    assert (message[-1], message.count("Invalid value")) == ("]", 3)


def test_a_class_asks_for_service_monitors_only_if_its_spec_enables_service_monitors() -> None:
    off: Object = {"metrics": {"enable": True, "serviceMonitor": {"enable": False}}}
    specs: list[Object] = [MONITORED, off, {"metrics": {"enable": True}}, {}, {"metrics": {}}]
    asks = [plans.asks_for_monitors(live_proxy_class(spec=spec)) for spec in specs]
    assert asks == [True, False, False, False, False]


NODE_PORTS = ports({"port": 3001})


def test_the_first_class_with_node_ports_makes_the_operator_ask_for_the_clusters_range() -> None:
    asking, unasked = Plan(hold=FINALIZER, steps=[FindNodePorts()], requeue_after=0), Observed(asked_for_ports=False)
    assert plan(NODE_PORTS, unasked) == asking
    assert condition_of(plan({}, unasked)) == READY


@pytest.mark.parametrize("spec", [{}, NODE_PORTS, {"metrics": {}}])
def test_a_deleted_class_is_released(spec: Object) -> None:
    obj = deleting(held(live_proxy_class(spec=spec)))
    assert plans.plan(obj, ProxyClass.parse(obj), Observed(asked_for_ports=False)) == Plan(release=FINALIZER)


def test_an_event_says_that_the_api_server_refused_a_write_of_a_class_and_the_operator_tries_it_again() -> None:
    refusal = Refusal("no finalizers for you", error=ValueError("403"))
    notes = [Note("Warning", "ProxyClassNotWritten", "no finalizers for you")]
    assert plans.failed(live_proxy_class(ready=True), refusal) == Plan(notes=notes, error=refusal.error)
    wanted = condition("ProxyClassReady", False, "ProxyClassNotWritten", refusal.message, 1)
    assert condition_of(plans.failed(live_proxy_class(), refusal)) == wanted
