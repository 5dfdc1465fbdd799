"""The plan for a Pod with a gate: the health checks of its Services, and the opening of the gate."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.names import EGRESS_GATE
from tsoperator.api.objects import Key, Object
from tsoperator.proxy.entries import Entry
from tsoperator.proxy.pod import slim
from tsoperator.reconcilers.egresspod import plan as plans
from tsoperator.reconcilers.egresspod.plan import Check, HealthAnswer, Observed, ServedGroup
from tsoperator.runtime.plan import Note, Plan, Refusal, Report

from tests.operator.reconcilers.egresspod.objects import HEALTH, POD_IP, USER, endpoints, gate, group, pod, service

GOING = "2030-01-01T00:00:00Z"
POD_IP6 = "2001:db8::7"
WEB = Key("shop", "web")
CHECK = Check(USER, "http://ts-db.tailscale.svc.cluster.local:9002/healthz", "Pod-IPv4", POD_IP)
CHECK6 = replace(CHECK, header="Pod-IPv6", address=POD_IP6)
OF_WEB = replace(CHECK, service=WEB, url="http://ts-web.tailscale.svc.cluster.local:9002/healthz")


ANOTHER = {"readinessGates": [{"conditionType": "a/b"}]}
WAITS = {
    "closed": (pod(POD_IP), True),
    "closed by somebody": (pod(POD_IP, status=gate("False")), True),
    "open": (pod(POD_IP, status=gate("True")), False),
    "going": (pod(POD_IP, deletionTimestamp=GOING), False),
    "of no group": (pod(POD_IP, labels={}), False),
    "without a gate": ({**pod(POD_IP), "spec": {"containers": []}}, False),
    "with another gate": ({**pod(POD_IP), "spec": ANOTHER}, False),
}


@pytest.mark.parametrize(("found", "waits"), WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("kept", [slim, lambda obj: obj], ids=["slim", "whole"])
def test_an_egress_pod_waits_while_its_gate_is_closed(
    found: Object, waits: bool, kept: Callable[[Object], Object]
) -> None:
    assert plans.is_waiting(kept(found)) == waits


class Asked(NamedTuple):
    """A Pod and its group's objects, the expected checks, and the Services that lack an endpoint for the Pod."""

    name: str
    checks: Sequence[Check] = ()
    unserved: Sequence[Key] = ()
    waiting: Object = pod(POD_IP)
    services: Sequence[Object] = (service(),)
    slices: Sequence[Object] = (endpoints(POD_IP),)
    served: Sequence[Key] = (USER, WEB)


ASKED = [
    Asked("one Service", [CHECK]),
    Asked("no Service", services=()),
    Asked("a Service that goes", services=[service(deletionTimestamp=GOING)]),
    Asked("a Service that the proxies are not told of", served=()),
    Asked("no health port", services=[service(health=None)]),
    Asked(
        "another health port",
        [replace(CHECK, url=CHECK.url.replace("9002", "9010"))],
        services=[service(health={**HEALTH, "port": 9010})],
    ),
    Asked("no EndpointSlice", unserved=[USER], slices=()),
    Asked("an EndpointSlice that goes", unserved=[USER], slices=[endpoints(POD_IP, deletionTimestamp=GOING)]),
    Asked("no endpoint", unserved=[USER], slices=[endpoints()]),
    Asked("another Pod's endpoint", unserved=[USER], slices=[endpoints("192.0.2.8")]),
    Asked("the second endpoint", [CHECK], slices=[endpoints("192.0.2.8", POD_IP)]),
    Asked("an endpoint that isn't ready", unserved=[USER], slices=[endpoints(POD_IP, ready=False)]),
    Asked("an endpoint that doesn't say whether", [CHECK], slices=[endpoints(POD_IP, ready=None)]),
    Asked("a port that all serve but this Pod", unserved=[USER], slices=[endpoints(POD_IP), endpoints("192.0.2.8")]),
    Asked(
        "another port that all serve but this Pod", unserved=[USER], slices=[endpoints("192.0.2.8"), endpoints(POD_IP)]
    ),
    Asked("each port by itself", [CHECK], slices=[endpoints(POD_IP), endpoints("192.0.2.8", POD_IP)]),
    Asked("two Services, one of them served", [CHECK], [WEB], services=[service(), service(WEB)]),
    Asked(
        "two Services",
        [CHECK, OF_WEB],
        services=[service(), service(WEB)],
        slices=[endpoints(POD_IP), endpoints(POD_IP, user=WEB)],
    ),
    Asked("IPv6", [CHECK6], waiting=pod(POD_IP6), slices=[endpoints(POD_IP6)]),
    Asked("both families, IPv6 first", [CHECK6], waiting=pod(POD_IP6, POD_IP)),
    Asked("both families, IPv4 first", [CHECK], waiting=pod(POD_IP, POD_IP6), slices=[endpoints(POD_IP6)]),
    Asked("a proxy without health checks", waiting=pod(POD_IP, env="false"), slices=()),
    Asked("a bad address that nobody needs", waiting=pod("nonsense"), services=()),
]


def entries(served: Sequence[Key]) -> dict[str, Entry]:
    return {f"{key.namespace}-{key.name}": Entry("", "100.64.0.1", frozenset()) for key in served}


@pytest.mark.parametrize("case", ASKED, ids=lambda case: case.name)
def test_there_is_a_health_check_for_each_service_of_the_group_that_has_the_pod_as_an_endpoint(case: Asked) -> None:
    served = ServedGroup(group(), case.services, case.slices, entries(case.served))
    made = plans.question(slim(case.waiting), served, "cluster.local")
    assert made is not None
    told = ("foo-0-uid", frozenset(case.checks), frozenset(case.unserved))
    assert (made.pod, made.checks, made.unserved) == told


@pytest.mark.parametrize(("replicas", "requests"), [(None, 6), (0, 3), (1, 3), (3, 9)])
def test_an_attempt_at_a_health_check_has_three_requests_for_each_replica(replicas: int | None, requests: int) -> None:
    served = ServedGroup(group(replicas), [service()], [endpoints(POD_IP)], entries([USER]))
    made = plans.question(pod(POD_IP), served, "cluster.local")
    assert made is not None
    assert made.requests == requests


@pytest.mark.parametrize(
    ("found", "ips"), [(None, [POD_IP]), (group(type_="ingress"), [POD_IP]), (group(), [])],
    ids=["no group", "a group of another type", "no address"],
)  # fmt: skip
def test_there_is_no_health_check_for_a_pod_without_a_group_or_an_address(
    found: Object | None, ips: Sequence[str]
) -> None:
    served = ServedGroup(found, [service()], [endpoints(POD_IP)], entries([USER]))
    assert plans.question(slim(pod(*ips)), served, "cluster.local") is None


def test_an_invalid_address_of_an_egress_pod_raises_an_error() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        plans.question(pod("nonsense"), ServedGroup(group(), [service()], [], entries([USER])), "cluster.local")


@pytest.mark.parametrize(
    ("check", "status", "header", "means"),
    [
        (CHECK, 200, POD_IP, HealthAnswer.OWN),
        (CHECK, 503, POD_IP, HealthAnswer.UNHEALTHY),
        (CHECK, 200, "192.0.2.8", HealthAnswer.OTHER),
        (CHECK, 503, "192.0.2.8", HealthAnswer.OTHER),
        (CHECK, 200, "", HealthAnswer.OTHER),
        (CHECK, 200, None, HealthAnswer.NO_HEADER),
        (CHECK, 404, None, HealthAnswer.NO_HEADER),
        (CHECK, 503, None, HealthAnswer.UNHEALTHY),
        (CHECK, 302, None, HealthAnswer.UNHEALTHY),
        (CHECK6, 200, "2001:DB8:0::7", HealthAnswer.OWN),
        (CHECK6, 200, "2001:db8::8", HealthAnswer.OTHER),
    ],
)
def test_the_header_and_the_status_of_a_health_answer_tell_which_pod_gave_the_answer(
    check: Check, status: int, header: str | None, means: HealthAnswer
) -> None:
    assert check.answer(status, header) is means


@pytest.mark.parametrize("before", [{}, gate("False")], ids=["no condition", "closed by somebody"])
@pytest.mark.parametrize(("services", "words"), [(0, "no Service"), (3, "3 Services")])
def test_the_operator_opens_a_gate_by_a_condition_of_the_pod_and_keeps_the_other_conditions(
    before: Object, services: int, words: str
) -> None:
    live = pod(POD_IP, status=before)
    plan = plans.plan(slim(live), Observed(live, services))
    (report,) = plan.reports
    status = report.status or {}
    conditions = {each["type"]: each for each in status["conditions"]}
    assert plan == Plan(reports=[Report(live, status)])
    assert status["podIP"] == POD_IP
    assert conditions.keys() == {EGRESS_GATE, *(each["type"] for each in before.get("conditions", ()))}
    assert conditions[EGRESS_GATE]["status"] == "True"
    assert words in conditions[EGRESS_GATE]["message"]


def test_a_refused_write_of_a_gate_is_reported_by_an_event() -> None:
    refusal = Refusal("no status for you", error=ValueError("403"))
    wanted = Plan(notes=[Note("Warning", "EgressGateFailed", "no status for you")], error=refusal.error)
    assert plans.failed(Observed(), pod(POD_IP), refusal) == wanted
