"""The question that the prober asks the cluster's DNS."""

from dataclasses import replace

import pytest
from tsoperator.api.objects import CONFIGMAP, DEPLOYMENT, SERVICE, Key, Object
from tsoperator.dns.canary import canary_name
from tsoperator.dns.cluster.platforms import OPENSHIFT_DNS
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.probe.question import Asked, Canary, CanaryQuestion, question_of

from tests.support.objects import live_dnsconfig, obj

KEY = Key("tailscale", "nameserver")
DNSCONFIG = live_dnsconfig(generation=3)
ZONES, SERVERS = ("ts.net", "example.org"), ("10.96.0.10", "10.96.0.11")
ASKED = Asked(ZONES, SERVERS)
AT = obj(SERVICE, KEY, {"spec": {"clusterIP": "10.96.0.53", "clusterIPs": ["10.96.0.53", "2001:db8::53"]}})
HEADLESS = obj(SERVICE, KEY, {"spec": {"clusterIP": "None"}})
READY = obj(DEPLOYMENT, KEY, {"status": {"readyReplicas": 2, "updatedReplicas": 1}})
CANARIES = tuple(Canary(zone, canary_name("ts-dns-uid", zone)) for zone in ZONES)
QUESTION = CanaryQuestion(SERVERS, "10.96.0.53", CANARIES, (3, 2, 1))


def test_the_question_has_each_server_and_the_canary_of_each_zone() -> None:
    assert question_of(DNSCONFIG, AT, READY, None, ASKED) == QUESTION
    assert question_of(DNSCONFIG, AT, None, None, ASKED) == replace(QUESTION, seen=(3, None, None))


def test_the_prober_asks_only_the_nameserver_if_the_servers_of_the_cluster_are_unknown() -> None:
    assert question_of(DNSCONFIG, AT, READY, None, ASKED._replace(servers=())) == replace(QUESTION, servers=())


def test_the_question_has_the_version_of_the_dns_configuration_and_the_servers_to_which_it_forwards() -> None:
    data = {"Corefile": "ts.net {\n forward . 10.96.0.10\n}\n"}
    corefile = obj(CONFIGMAP, Key("kube-system", "coredns"), {"data": data}, resourceVersion="17")
    openshift = obj(OPENSHIFT_DNS, Key("", "default"), resourceVersion="18")
    for dns, version, to in ((DNSObjects([corefile]), "17", ["10.96.0.10"]), (DNSObjects([], openshift), "18", ())):
        wanted = replace(QUESTION, seen=(3, 2, 1, version), targets={"ts.net": to, "example.org": ()})
        assert question_of(DNSCONFIG, AT, READY, dns, ASKED) == wanted


@pytest.mark.parametrize(
    ("dnsconfig", "found", "asked"),
    [
        (None, AT, ASKED),
        (DNSCONFIG, None, ASKED),
        (DNSCONFIG, HEADLESS, ASKED),
        (DNSCONFIG, AT, ASKED._replace(zones=())),
    ],
)
def test_the_prober_has_no_question_until_all_parts_of_the_question_are_known(
    dnsconfig: Object | None, found: Object | None, asked: Asked
) -> None:
    assert question_of(dnsconfig, found, READY, None, asked) is None


def test_two_questions_are_equal_if_they_have_the_same_servers_and_zones() -> None:
    assert QUESTION.is_same(replace(QUESTION, seen=(4,), targets={"ts.net": ["192.0.2.1"]}))
    changes = ({"servers": SERVERS[:1]}, {"nameserver": "10.96.0.54"}, {"canaries": CANARIES[:1]})
    assert not any(map(QUESTION.is_same, [*(replace(QUESTION, **change) for change in changes), None]))
