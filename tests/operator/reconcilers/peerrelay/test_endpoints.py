"""The endpoints of relays, from the statuses of load balancers."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pytest
from tsoperator.api.objects import Key, Object, key_of
from tsoperator.reconcilers.peerrelay.endpoints import Balancers, Resolved, by_relay_address, endpoints, hostnames

from tests.operator.reconcilers.peerrelay.relays import balancer, host, ip
from tests.support.objects import deleting

KEY = Key("tailscale", "peerrelay-edge-0")
FAILED = Resolved(failure="no such host")


class Case(NamedTuple):
    """A load balancer, the *addresses* that its relay gets, and a *word* of the message about a fault."""

    service: Object | None
    addresses: Sequence[str] = ()
    word: str = ""
    resolved: Mapping[str, Resolved] = MappingProxyType({})
    published: Sequence[str] = ()
    sharing: Sequence[Object] = ()


A, B = "203.0.113.4", "203.0.113.10"
LB = "lb.example.org"
OLD, NEW = {"creationTimestamp": "2026-01-01T00:00:00Z"}, {"creationTimestamp": "2026-01-02T00:00:00Z"}
REFUSED = {"ip": A, "ports": [{"port": 41641, "protocol": "UDP", "error": "example.org/PortTaken"}]}
OTHER_PORT = {"ip": A, "ports": [{"port": 443, "protocol": "TCP", "error": "example.org/PortTaken"}]}

CASES = {
    "no Service": Case(None),
    "a Service that goes": Case(deleting(balancer(0, ip(A)))),
    "no entry yet": Case(balancer(0)),
    "an address": Case(balancer(0, ip(A)), [A]),
    "two addresses, sorted as texts": Case(balancer(0, ip(A), ip(B), ip(A)), [B, A]),
    "an address beside a hostname": Case(balancer(0, host(LB), ip(A)), [A], resolved={LB: Resolved((B,))}),
    "no address at all": Case(balancer(0, {}), word="neither an IP address nor a hostname"),
    "nonsense": Case(balancer(0, ip("nonsense")), word="neither an IP address nor a hostname"),
    "a hostname": Case(balancer(0, host(LB)), [B, A], resolved={LB: Resolved((A, B))}),
    "the first hostname that has addresses": Case(
        balancer(0, host("gone.example.org"), host(LB)), [A], resolved={"gone.example.org": FAILED, LB: Resolved((A,))}
    ),
    "a hostname that is being looked up": Case(balancer(0, host(LB))),
    "a published one that is being looked up": Case(balancer(0, host(LB)), [A], published=[f"{A}:41641"]),
    "a hostname without addresses": Case(
        balancer(0, host(LB)), word="lb.example.org (no such host)", resolved={LB: FAILED}
    ),
    "a published one without addresses": Case(
        balancer(0, host(LB)), [A, "2001:db8::1"], "no such host", {LB: FAILED}, [f"{A}:41641", "[2001:db8::1]:41641"]
    ),
    "a published one that has other addresses": Case(
        balancer(0, host(LB)), [B], "", {LB: Resolved((B,))}, [f"{A}:41641"]
    ),
    "a published one that lost its load balancer": Case(balancer(0), published=[f"{A}:41641"]),
    "a port that the load balancer can't open": Case(balancer(0, REFUSED), word="example.org/PortTaken"),
    "another port that it can't open": Case(balancer(0, OTHER_PORT), [A]),
    "an address that an older Service has": Case(
        balancer(0, ip(A), ip(B), **NEW), [B], f"of {A}", sharing=[balancer(3, ip(A), name="other", **OLD)]
    ),
    "an address that a newer Service has": Case(
        balancer(0, ip(A), **OLD), [A], sharing=[balancer(3, ip(A), name="other", **NEW)]
    ),
    "an address that a Service had": Case(
        balancer(0, ip(A), **NEW), [A], sharing=[deleting(balancer(3, ip(A), name="other", **OLD))]
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_relay_gets_endpoints_from_its_load_balancer(case: Case) -> None:
    found = endpoints(case.service, KEY, Balancers(case.sharing, case.resolved), case.published)
    assert list(found.addresses) == list(case.addresses)
    assert case.word in found.problem
    assert bool(found.problem) == bool(case.word)
    assert not case.word or "see that" in found.problem or "free that port" in found.problem or "neither" in case.word


def test_the_configuration_of_a_relay_lists_endpoints_with_the_port_of_relays() -> None:
    found = endpoints(balancer(0, ip(A), ip("2001:db8::1")), KEY, Balancers(), ())
    assert found.static == ("[2001:db8::1]:41641", "203.0.113.4:41641")


def test_the_hostnames_of_a_load_balancer_are_looked_up_only_if_its_status_has_no_address() -> None:
    assert hostnames(balancer(0, host(LB), host("other.example.org"))) == [LB, "other.example.org"]
    assert hostnames(balancer(0, host(LB), ip(A))) == []


def test_only_load_balancers_with_the_port_of_relays_are_indexed_by_address() -> None:
    service = balancer(0, ip(A), host(LB))
    (port,) = service["spec"]["ports"]
    others: list[Object] = [
        {"type": "ClusterIP"},
        {"ports": [{**port, "protocol": "TCP"}]},
        {"ports": [{**port, "port": 443}]},
        {"ports": None},
    ]
    assert list(by_relay_address(service)) == [A]
    for other in others:
        assert list(by_relay_address({**service, "spec": {**service["spec"], **other}})) == []
    assert key_of(service) == KEY
