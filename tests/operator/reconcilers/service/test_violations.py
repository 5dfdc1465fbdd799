"""The violations of an egress Service that names a ProxyGroup, and of a Service with Funnel."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.objects import Key, Object
from tsoperator.group.places import Places
from tsoperator.reconcilers.service.ask import parse
from tsoperator.reconcilers.service.violations import funnel_violations, group_violations
from tsoperator.tailnet.zones import NO_SUFFIXES, Suffixes

from tests.operator.group.places import GROUP, group, live_group
from tests.operator.reconcilers.service.specs import (
    EGRESS,
    FQDN_KEY,
    FUNNEL,
    GROUP_KEY,
    IP_KEY,
    LOAD_BALANCER,
    user_service,
)
from tests.support.objects import egress_service, settings

NAMED = {GROUP_KEY: GROUP}
BY_NAME = NAMED | EGRESS
ELSEWHERE = {**NAMED, FQDN_KEY: "db.example.org"}
PLACES = Places(groups={GROUP: group()})


def to(type_: str) -> Places:
    return Places(groups={GROUP: group(obj=live_group(type=type_))})


class Case(NamedTuple):
    service: Object
    words: str = ""
    places: Places = PLACES
    suffixes: Suffixes = NO_SUFFIXES


CASES = {
    "sound": Case(user_service()),
    "sound, UDP": Case(user_service(spec={"ports": [{"port": 53, "protocol": "UDP"}]})),
    "a long name": Case(user_service(name="a" * 63)),
    "headless": Case(user_service(spec={"clusterIP": "None"}), "headless Services are not supported: use a Service"),
    "both targets": Case(user_service({**BY_NAME, IP_KEY: "100.64.0.1"}), "only one of"),
    "another zone": Case(user_service(ELSEWHERE), "not a MagicDNS name"),
    "another zone, which is known": Case(user_service(ELSEWHERE), suffixes=Suffixes(("example.org",))),
    "no address": Case(user_service({**NAMED, IP_KEY: "db"}), "not an IP address"),
    "a tag": Case(user_service({**BY_NAME, "tailscale.com/tags": "db"}), "annotation tailscale.com/tags: "),
    "no ports": Case(user_service(spec={"ports": []}), "it has no ports: list those"),
    "SCTP": Case(user_service(spec={"ports": [{"port": 5, "protocol": "SCTP"}]}), "port 5/SCTP: the proxies forward"),
    "our port's name": Case(
        user_service(spec={"ports": [{"port": 5, "name": "tailscale-health-check"}]}),
        "the port name tailscale-health-check is taken",
    ),
    "ClusterIP": Case(user_service(spec={"type": "ClusterIP"}), "spec.type must be ExternalName"),
    "ingress": Case(user_service(), "is of type ingress, which can't lead to devices", to("ingress")),
    "kube-apiserver": Case(user_service(), "is of type kube-apiserver", to("kube-apiserver")),
    "the same entry": Case(
        user_service(),
        "ProxyGroup 'egress' would know it as 'default-db', which is Service a/b there: rename",
        replace(PLACES, rival=Key("a", "b")),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_violation_of_an_egress_service_of_a_group_says_how_to_fix_it(case: Case) -> None:
    found = group_violations(parse(case.service, settings()), case.places, case.suffixes)
    assert [case.words in each for each in found] == [True] * bool(case.words)


@pytest.mark.parametrize(
    ("ports", "protocol", "named"),
    [
        ((443, 8443, 10000), "TCP", ""),
        ((80,), "TCP", "80/TCP"),
        ((443, 80, 22), "TCP", "80/TCP, 22/TCP"),
        ((443,), "UDP", "443/UDP"),
    ],
)
def test_the_violation_about_funnel_names_each_wrong_port_and_the_ports_that_work(
    ports: tuple[int, ...], protocol: str, named: str
) -> None:
    listed = [{"port": port, "protocol": protocol} for port in ports]
    found = funnel_violations(parse(egress_service(FUNNEL, spec=LOAD_BALANCER | {"ports": listed}), settings()))
    words = f"Funnel can't serve port {named}: it works on TCP ports 443, 8443 and 10000 only"
    assert [each.startswith(words) and "tailscale.com/funnel" in each for each in found] == [True] * bool(named)
