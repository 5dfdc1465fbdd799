"""What an egress Service says of its ProxyGroup's proxies."""

import hashlib
from typing import NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.reconcilers.service.clusterip import Target
from tsoperator.reconcilers.service.readiness import config_digest, configured, not_configured, readiness
from tsoperator.reconcilers.service.slices import Group

from tests.operator.reconcilers.service.places import group, live_group, pod, user_service

SERVED = group()
FIRST, SECOND, THIRD = pod(0, "10.0.0.1"), pod(1, "10.0.0.2"), pod(2, "10.0.0.3")


NOT_SERVED = "ProxyGroup 'egress' doesn't serve it yet: look at the conditions of the ProxyGroup"


class Case(NamedTuple):
    status: str
    reason: str
    serving: dict[int, list[Object]]
    group: Group = SERVED
    message: str = "no message"


CASES = {
    "no place": Case("False", "ClusterResourcesNotReady", {}, message=NOT_SERVED),
    "no group": Case("False", "ClusterResourcesNotReady", {4: [FIRST]}, group(obj=None), NOT_SERVED),
    "group not available": Case(
        "False", "ClusterResourcesNotReady", {4: [FIRST]}, group(obj=live_group(available=False)), NOT_SERVED
    ),
    "no replicas": Case(
        "False", "NoProxiesConfigured", {4: []}, group(obj=live_group(replicas=0)), "ProxyGroup 'egress' has no proxies"
    ),
    "a Pod missing": Case(
        "Unknown", "ClusterResourcesNotReady", {4: [FIRST]}, group(pods=[FIRST]), "a Pod of ProxyGroup 'egress' is not"
    ),
    "none": Case("False", "NotReadyToRouteTraffic", {4: []}, message="0 out of 2 replicas are ready to route traffic"),
    "one": Case("True", "PartiallyReadyToRouteTraffic", {4: [FIRST]}, message="1 out of 2"),
    "both": Case("True", "ReadyToRouteTraffic", {4: [FIRST, SECOND]}, message="2 out of 2"),
    "one in both families": Case(
        "True", "PartiallyReadyToRouteTraffic", {4: [FIRST, SECOND], 6: [SECOND]}, message="1 out of 2"
    ),
    "each in one family": Case("False", "NotReadyToRouteTraffic", {4: [FIRST], 6: [SECOND]}, message="0 out of 2"),
    "scaled down": Case(
        "True",
        "ReadyToRouteTraffic",
        {4: [FIRST, SECOND, THIRD]},
        group(pods=[FIRST, SECOND, THIRD]),
        message="2 out of 2",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_replica_counts_if_all_addresses_of_the_service_lead_to_it(case: Case) -> None:
    told = readiness(case.group, case.serving)
    assert (told["type"], told["status"], told["reason"]) == ("TailscaleEgressSvcReady", case.status, case.reason)
    assert told["message"].startswith(case.message)


DIGESTS = {
    "plain": (
        user_service(),
        Target("db.tail1234.ts.net", ""),
        '{"ports":[{"protocol":"TCP","port":5432,"targetPort":0}],'
        '"tailnetTarget":{"ip":"","fqdn":"db.tail1234.ts.net"},"proxyGroup":"egress"}',
    ),
    "all fields": (
        user_service(
            spec={
                "ports": [
                    {
                        "nodePort": 30000,
                        "targetPort": 81,
                        "port": 80,
                        "appProtocol": "http",
                        "protocol": "TCP",
                        "name": "w",
                    }
                ]
            }
        ),
        Target("", "100.64.0.9"),
        '{"ports":[{"name":"w","protocol":"TCP","appProtocol":"http","port":80,"targetPort":81,"nodePort":30000}],'
        '"tailnetTarget":{"ip":"100.64.0.9","fqdn":""},"proxyGroup":"egress"}',
    ),
}


@pytest.mark.parametrize(("service", "target", "text"), DIGESTS.values(), ids=DIGESTS)
def test_the_digest_is_that_of_the_go_operator(service: Object, target: Target, text: str) -> None:
    assert config_digest(service, target, "egress") == hashlib.sha256(text.encode()).hexdigest()


def test_the_reason_names_the_group_and_the_digest() -> None:
    good, bad = configured("egress", "abc"), not_configured("egress", "abc")
    assert (good["status"], good["reason"]) == ("True", "ConfiguredFor:ProxyGroup:egress:Config:abc")
    assert (bad["status"], bad["reason"]) == ("False", "ConfigurationFailed:ProxyGroup:egress:Config:abc")
    assert (good["message"], bad["message"]) == (good["reason"], bad["reason"])
    assert not_configured("egress", "abc", "full")["message"] == "full"
