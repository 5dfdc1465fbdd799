"""The conditions of an egress Service about its ProxyGroup's proxies."""

import hashlib
from typing import NamedTuple

import pytest
from tsoperator.group.proxygroup import Group
from tsoperator.group.slices import Serving
from tsoperator.proxy.entries import Port
from tsoperator.reconcilers.service.ask import parse
from tsoperator.reconcilers.service.grouped import config_digest, configured, not_configured, readiness

from tests.operator.group.places import PORT, group, live_group, pod, serving, user_service
from tests.operator.reconcilers.service.specs import GROUP, IP_KEY
from tests.support.objects import settings

SERVED = group()
FIRST, SECOND, THIRD = pod(0, "10.0.0.1"), pod(1, "10.0.0.2"), pod(2, "10.0.0.3")
NOT_SERVED = "ProxyGroup 'egress' doesn't serve it yet: look at the conditions of the ProxyGroup"


class Case(NamedTuple):
    status: str
    reason: str
    serving: dict[int, Serving]
    message: str
    group: Group = SERVED


READY = " replicas are ready to route traffic"
PARTLY = f"{READY}; some of the Service's ports and addresses lead to proxies already"
OTHER_PORT = Port("UDP", 10001, 53)
NOBODY = "NotReadyToRouteTraffic"
NO_RESOURCES = "ClusterResourcesNotReady"
SOME, ALL = "PartiallyReadyToRouteTraffic", "ReadyToRouteTraffic"
NO_PROXIES = "ProxyGroup 'egress' has no proxies"
CASES = {
    "no place": Case("False", NO_RESOURCES, {}, NOT_SERVED),
    "no group": Case("False", NO_RESOURCES, {4: serving(FIRST)}, NOT_SERVED, group(obj=None)),
    "not available": Case(
        "False", NO_RESOURCES, {4: serving(FIRST)}, NOT_SERVED, group(obj=live_group(available=False))
    ),
    "no replicas": Case("False", "NoProxiesConfigured", {4: serving()}, NO_PROXIES, group(obj=live_group(replicas=0))),
    "a Pod missing": Case(
        "Unknown", NO_RESOURCES, {4: serving(FIRST)}, "a Pod of ProxyGroup 'egress'", group(pods=[FIRST])
    ),
    "none": Case("False", NOBODY, {4: serving()}, f"0 out of 2{READY}"),
    "one": Case("True", SOME, {4: serving(FIRST)}, "1 out of 2"),
    "both": Case("True", ALL, {4: serving(FIRST, SECOND)}, "2 out of 2"),
    "one in both families": Case("True", SOME, {4: serving(FIRST, SECOND), 6: serving(SECOND)}, "1 out of 2"),
    "each in one family": Case("False", NOBODY, {4: serving(FIRST), 6: serving(SECOND)}, "0 out of 2"),
    "another port in one": Case("True", SOME, {4: {PORT: [FIRST, SECOND], OTHER_PORT: [SECOND]}}, "1 out of 2"),
    "another port in none": Case("False", NOBODY, {4: {PORT: [FIRST, SECOND], OTHER_PORT: []}}, f"0 out of 2{PARTLY}"),
    "scaled down": Case(
        "True", ALL, {4: serving(FIRST, SECOND, THIRD)}, "2 out of 2", group(pods=[FIRST, SECOND, THIRD])
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_replica_counts_as_ready_if_all_addresses_and_ports_of_the_service_lead_to_it(case: Case) -> None:
    told = readiness(case.group, case.serving)
    assert (told["type"], told["status"], told["reason"]) == ("TailscaleEgressSvcReady", case.status, case.reason)
    assert told["message"].startswith(case.message)


PLAIN_TEXT = (
    '{"ports":[{"protocol":"TCP","port":5432,"targetPort":0}],'
    '"tailnetTarget":{"ip":"","fqdn":"db.tail1234.ts.net"},"proxyGroup":"egress"}'
)
FULL_PORT = {"nodePort": 3, "targetPort": 81, "port": 80, "appProtocol": "http", "protocol": "TCP", "name": "w"}
FULL_TEXT = (
    '{"ports":[{"name":"w","protocol":"TCP","appProtocol":"http","port":80,"targetPort":81,"nodePort":3}],'
    '"tailnetTarget":{"ip":"100.64.0.9","fqdn":""},"proxyGroup":"egress"}'
)


def test_the_digest_of_the_configuration_is_the_one_that_the_go_operator_computes() -> None:
    for service, text in (
        (user_service(), PLAIN_TEXT),
        (user_service({IP_KEY: "100.64.0.9"} | GROUP, {"ports": [FULL_PORT]}), FULL_TEXT),
    ):
        assert config_digest(parse(service, settings())) == hashlib.sha256(text.encode()).hexdigest()


def test_the_reason_names_the_group_and_the_digest() -> None:
    good, bad = configured("egress", "abc"), not_configured("egress", "abc")
    assert (good["status"], good["reason"]) == ("True", "ConfiguredFor:ProxyGroup:egress:Config:abc")
    assert (bad["status"], bad["reason"]) == ("False", "ConfigurationFailed:ProxyGroup:egress:Config:abc")
    assert (good["message"], bad["message"]) == (good["reason"], bad["reason"])
    assert not_configured("egress", "abc", "full")["message"] == "full"
