import pytest
from tsoperator.api.names import EGRESS_GATE
from tsoperator.api.objects import Object
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.pod import answers_health_checks, has_gate, in_service, is_down, slim

from tests.support.objects import down, with_conditions

ENDED: Object = {"exitCode": 0, "startedAt": "2030-01-01T00:00:00Z", "finishedAt": "2030-01-01T00:00:02Z"}
LAST: Object = {**ENDED, "reason": "Completed", "containerID": "containerd://1"}
IDENTITY: Object = {"name": "ts-db-x7k2p-0", "namespace": "tailscale", "uid": "1-2", "resourceVersion": "7"}
KEPT: Object = {**IDENTITY, "labels": {"a": "b"}, "deletionTimestamp": "2030-01-01T00:00:00Z"}
WHOLE: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        **KEPT,
        "annotations": {"example.org/a": "b"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "ts-db-x7k2p", "uid": "1-1"}],
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {"containers": [{"name": "tailscale", "image": "tailscale/tailscale"}]},
    "status": {
        "podIP": "192.0.2.1",
        "podIPs": [{"ip": "192.0.2.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "a", "restartCount": 3, "ready": True, "lastState": {"terminated": LAST}}],
    },
}


def test_a_slim_pod_has_only_the_fields_that_the_operator_reads() -> None:
    containers = [{"restartCount": 3, "lastState": {"terminated": ENDED}}]
    assert slim(WHOLE) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**KEPT, "ownerReferences": [{"kind": "StatefulSet"}]},
        "status": {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}], "containerStatuses": containers},
    }


@pytest.mark.parametrize("last", [{}, {"lastState": {}}, {"lastState": {"terminated": None}}], ids=str)
def test_a_slim_pod_stores_only_the_number_of_restarts_of_a_container_that_has_never_ended(last: Object) -> None:
    status = {"containerStatuses": [{"restartCount": 0, **last}]}
    assert slim({**WHOLE, "status": status})["status"]["containerStatuses"] == [{"restartCount": 0}]


@pytest.mark.parametrize("status", [{}, {"status": {}}, {"status": {"phase": "Pending"}}], ids=str)
def test_a_pod_that_has_not_started_has_no_address_and_no_containers(status: Object) -> None:
    made = slim({"apiVersion": "v1", "kind": "Pod", "metadata": IDENTITY, "spec": {}, **status})
    assert made["metadata"] == {**IDENTITY, "ownerReferences": []}
    assert made["status"] == {"podIP": "", "podIPs": [], "containerStatuses": []}


CHECKED = {"name": "TS_ENABLE_HEALTH_CHECK", "value": "true"}
UNGATED: Object = {**WHOLE, "metadata": {**WHOLE["metadata"], "labels": group_owner("egress").labels}}
GATED: Object = {
    **UNGATED,
    "spec": {
        "nodeName": "worker",
        "readinessGates": [{"conditionType": "example.org/a"}, {"conditionType": EGRESS_GATE}],
        "containers": [
            {"name": "sidecar", "image": "envoy"},
            {"name": "tailscale", "env": [{"name": "POD_IP", "valueFrom": {}}, CHECKED]},
        ],
    },
    "status": {
        **WHOLE["status"],
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "[tailscale]"},
            {"type": "Initialized", "status": "True"},
            {"type": EGRESS_GATE, "status": "True", "lastTransitionTime": ENDED["finishedAt"]},
        ],
    },
}


def test_a_slim_pod_with_our_gate_also_has_its_readiness_and_the_fields_on_which_the_gate_depends() -> None:
    made, plain = slim(GATED), slim(UNGATED)
    assert made["spec"] == {
        "readinessGates": [{"conditionType": EGRESS_GATE}],
        "containers": [{"env": [CHECKED]}],
    }
    ready, gate = made["status"].pop("conditions")
    assert ready == {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    assert gate == {"type": EGRESS_GATE, "status": "True"}
    assert plain["status"].pop("conditions") == [{"type": "Ready", "status": "True"}]
    assert made["status"] == plain["status"]
    assert made["metadata"] == plain["metadata"]
    assert slim(slim(GATED)) == slim(GATED)


@pytest.mark.parametrize(
    ("variable", "answers"),
    [
        (CHECKED, True),
        ({**CHECKED, "value": "false"}, False),
        ({"name": "TS_ENABLE_HEALTH_CHECK", "valueFrom": {}}, False),
        ({**CHECKED, "name": "OTHER"}, False),
        (None, False),
    ],
)
def test_the_environment_of_a_pod_tells_whether_the_proxy_answers_health_checks(
    variable: Object | None, answers: bool
) -> None:
    containers = [{"name": "sidecar"}, {"name": "tailscale", "env": [variable] if variable else None}]
    pod = {**GATED, "spec": {**GATED["spec"], "containers": containers}}
    assert answers_health_checks(pod) is answers_health_checks(slim(pod)) is answers


def test_our_gate_is_distinguished_from_other_readiness_gates_of_a_pod() -> None:
    specs: list[Object] = [GATED["spec"], {"readinessGates": [{"conditionType": "example.org/a"}]}, {}]
    assert [has_gate({**WHOLE, "spec": spec}) for spec in specs] == [True, False, False]


FRESH: Object = {**GATED, "status": {**GATED["status"], "containerStatuses": [{"name": "a", "restartCount": 0}]}}
OPEN = (EGRESS_GATE, "True", "ServicesLeadToPod")
ENDED_CONTAINERS = ("ContainersReady", "False", "ContainersNotReady")
NOT_YET_OPEN = ("Ready", "False", "ReadinessGatesNotReady")
NOT_READY = ("Ready", "False", "ContainersNotReady")
DOWN: dict[str, tuple[Object, list[tuple[str, str, str]], bool]] = {
    "ready": (FRESH, [OPEN, ("Ready", "True", ""), ("ContainersReady", "True", "")], False),
    "new": (FRESH, [("Ready", "False", "ContainersNotReady"), ENDED_CONTAINERS], False),
    "waiting for the gate": (FRESH, [NOT_YET_OPEN, ("ContainersReady", "True", "")], False),
    "gate closed by somebody": (FRESH, [(EGRESS_GATE, "False", ""), ("Ready", "False", "")], False),
    "gate just opened": (FRESH, [OPEN, NOT_YET_OPEN, ("ContainersReady", "True", "")], False),
    "node died": (FRESH, [OPEN, ("Ready", "False", ""), ("ContainersReady", "True", "")], True),
    "containers ended": (FRESH, [OPEN, ("Ready", "True", ""), ENDED_CONTAINERS], True),
    "no condition yet": (FRESH, [OPEN], False),
    "gate closed, container ended": (GATED, [NOT_READY, ("ContainersReady", "False", "")], True),
    "gate closed, container back": (GATED, [NOT_READY, ("ContainersReady", "True", "")], False),
    "no gate, ready": (UNGATED, [("Ready", "True", ""), ("ContainersReady", "True", "")], False),
    "no gate, not ready": (UNGATED, [("Ready", "False", ""), ("ContainersReady", "True", "")], True),
}


@pytest.mark.parametrize(("whole", "conditions", "wanted"), DOWN.values(), ids=DOWN)
def test_a_pod_is_down_if_one_of_its_containers_has_ended_or_if_it_is_unready_although_its_gate_is_open(
    whole: Object, conditions: list[tuple[str, str, str]], wanted: bool
) -> None:
    pod = with_conditions(whole, *conditions)
    assert is_down(pod) is is_down(slim(pod)) is wanted


def test_pods_that_are_down_get_connections_only_if_all_pods_are_down() -> None:
    assert in_service([down(WHOLE), WHOLE]) == [WHOLE]
    assert in_service([down(WHOLE), down(GATED)]) == [down(WHOLE), down(GATED)]
    assert in_service([]) == []
