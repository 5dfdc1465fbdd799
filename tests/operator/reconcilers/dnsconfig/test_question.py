"""Which question the cluster's DNS is asked."""

from dataclasses import replace

import pytest
from tsoperator.api.objects import CONFIGMAP, DEPLOYMENT, SERVICE, Key, Object
from tsoperator.desired.canary import canary_name
from tsoperator.desired.clusterdns.platforms import OPENSHIFT_DNS
from tsoperator.desired.clusterdns.results import DNSObjects
from tsoperator.reconcilers.dnsconfig.question import Asked, Canary, Question, question_of

from tests.support.objects import live_dnsconfig, obj

KEY = Key("tailscale", "nameserver")
DNSCONFIG = live_dnsconfig(generation=3)
ZONES, SERVERS = ("ts.net", "example.org"), ("10.96.0.10", "10.96.0.11")
ASKED = Asked(ZONES, SERVERS)


def service(**spec: object) -> Object:
    return obj(SERVICE, KEY, {"spec": spec})


def deployment(**status: int) -> Object:
    return obj(DEPLOYMENT, KEY, {"status": status})


AT = service(clusterIP="10.96.0.53", clusterIPs=["10.96.0.53", "2001:db8::53"])
READY = deployment(readyReplicas=2, updatedReplicas=1)
QUESTION = Question(
    SERVERS, "10.96.0.53", tuple(Canary(zone, canary_name("ts-dns-uid", zone)) for zone in ZONES), (3, 2, 1)
)


def test_each_server_is_asked_for_the_canary_of_each_zone() -> None:
    assert question_of(DNSCONFIG, AT, READY, None, ASKED) == QUESTION
    assert question_of(DNSCONFIG, AT, None, None, ASKED) == replace(QUESTION, seen=(3, None, None))


def test_the_configuration_tells_where_questions_go() -> None:
    data = {"Corefile": "ts.net {\n forward . 10.96.0.10\n}\n"}
    corefile = obj(CONFIGMAP, Key("kube-system", "coredns"), {"data": data}, resourceVersion="17")
    made = question_of(DNSCONFIG, AT, READY, DNSObjects([corefile]), ASKED)
    assert made == replace(QUESTION, seen=(3, 2, 1, "17"), targets={"ts.net": ["10.96.0.10"], "example.org": ()})


def test_a_change_of_openshifts_object_is_asked_about() -> None:
    openshift = obj(OPENSHIFT_DNS, Key("", "default"), resourceVersion="18")
    assert question_of(DNSCONFIG, AT, READY, DNSObjects([], openshift), ASKED) == replace(
        QUESTION, seen=(3, 2, 1, "18"), targets={"ts.net": (), "example.org": ()}
    )


@pytest.mark.parametrize(
    ("dnsconfig", "found", "asked"),
    [
        (None, AT, ASKED),
        (DNSCONFIG, None, ASKED),
        (DNSCONFIG, service(clusterIP="None"), ASKED),
        (DNSCONFIG, AT, ASKED._replace(servers=())),
        (DNSCONFIG, AT, ASKED._replace(zones=())),
    ],
)
def test_nothing_is_asked_before_all_is_known(dnsconfig: Object | None, found: Object | None, asked: Asked) -> None:
    assert question_of(dnsconfig, found, READY, None, asked) is None


def test_a_question_is_the_same_whatever_was_seen_besides() -> None:
    assert QUESTION.is_same(replace(QUESTION, seen=(4,), targets={"ts.net": ["192.0.2.1"]}))
    others = [
        replace(QUESTION, servers=SERVERS[:1]),
        replace(QUESTION, nameserver="10.96.0.54"),
        replace(QUESTION, canaries=QUESTION.canaries[:1]),
    ]
    assert not any(map(QUESTION.is_same, [*others, None]))
