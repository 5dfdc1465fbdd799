"""The faults of the cluster's DNS, which the operator recognizes by its answers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.conditions import condition
from tsoperator.dns.probe.answers import (
    Authority,
    Reply,
    ServerVerdict,
    ZoneReplies,
    cluster_dns_condition,
    nameserver_verdict,
    steady_verdicts,
    verdict,
)

from tests.support.objects import live_dnsconfig

ZONE, SERVER, NAMESERVER = "tail1234.ts.net", "10.96.0.10", "10.96.0.53"
RIGHT = Reply("NOERROR", frozenset({NAMESERVER}))
OURS = Authority(ZONE, "nameserver.tailscale.svc.cluster.local", f"hostmaster.{ZONE}", 7)
PUBLIC = Authority("ts.net", "ns1.example.org", "hostmaster.ts.net", 7)
THEIRS = Authority(ZONE, OURS.mname, "admin.example.org", 7)
SILENT = Reply(failure="didn't answer within 5 s")
SERVFAIL, REFUSED = Reply("SERVFAIL"), Reply("REFUSED")
SEEN = ZoneReplies(ZONE, SERVER, NAMESERVER, RIGHT, RIGHT, RIGHT)
OTHER = Reply("NOERROR", frozenset({"192.0.2.2", "192.0.2.1"}))


def denied(authority: Authority | None = None, rcode: str = "NXDOMAIN") -> Reply:
    return Reply(rcode, authority=authority)


def asked(udp: Reply | None, direct: Reply = RIGHT, targets: Sequence[str] | None = None) -> ZoneReplies:
    return replace(SEEN, udp=udp, tcp=None, direct=direct, targets=targets)


def fresh(server: Authority | None, nameserver: Authority | None) -> ZoneReplies:
    """Return the replies of both servers for a zone whose canary the cluster's DNS denies with our SOA record.

    Both servers also deny a new name: the cluster's DNS with the SOA record *server*, and our nameserver with the SOA
    record *nameserver*. None means that the denial has no SOA record.
    """
    return replace(asked(denied(OURS)), fresh=denied(server), fresh_direct=denied(nameserver))


FORWARD = f"orward {ZONE} to {NAMESERVER}: status.clusterDNS.snippet has what to write"


class Case(NamedTuple):
    name: str
    seen: ZoneReplies
    fault: str
    words: Sequence[str] = ()


CASES = [
    Case("all is well", SEEN, ""),
    Case("well, though the operator can't reach the nameserver", replace(SEEN, direct=SILENT), ""),
    Case("NXDOMAIN of the public DNS", asked(denied(PUBLIC)), "NotForwarded", ["answered NXDOMAIN", FORWARD]),
    Case("NXDOMAIN of somebody who is called as we are", asked(denied(THEIRS)), "NotForwarded"),
    Case("NXDOMAIN without a SOA", asked(denied()), "NotForwarded", ["doesn't ask the name", "OPERATOR_CLUSTER_DNS"]),
    Case("NODATA of the public DNS", asked(denied(PUBLIC, "NOERROR")), "NotForwarded", ["answered without an address"]),
    Case("no stub domain", asked(SERVFAIL, targets=[]), "NotForwarded", ["Its configuration doesn't forward", FORWARD]),
    Case("no stub domain, and no server", asked(SILENT, targets=[]), "NoAnswer", ["Its configuration doesn't forward"]),
    Case("a new name is asked of us", fresh(OURS, OURS), "CachedNegativeAnswer", ["denial", "clusterDNS.snippet"]),
    Case("a new name is asked of others", fresh(replace(OURS, serial=8), OURS), "WrongAddress", ["another server"]),
    Case("a new name isn't answered", fresh(None, None), "WrongAddress", [FORWARD]),
    Case("NODATA from our cache", replace(fresh(OURS, OURS), udp=denied(OURS, "NOERROR")), "CachedNegativeAnswer"),
    Case("another address", asked(OTHER), "WrongAddress", ["answered 192.0.2.1, 192.0.2.2", FORWARD]),
    Case("two targets", asked(OTHER, targets=[NAMESERVER, "192.0.2.9"]), "WrongAddress", ["to 10.96.0.53, 192.0.2.9:"]),
    Case("not loaded yet", asked(OTHER, targets=[NAMESERVER]), "WrongAddress", ["as it should: wait until it has"]),
    Case("SERVFAIL", asked(SERVFAIL), "ServerFailure", ["answered SERVFAIL", "answers the operator", FORWARD]),
    Case("SERVFAIL, and we are silent", asked(SERVFAIL, SILENT), "ServerFailure", ["didn't answer", "its Pods"]),
    Case("SERVFAIL of the nameserver, too", asked(SERVFAIL, SERVFAIL), "ServerFailure", ["answered SERVFAIL when"]),
    Case("a time-out", asked(SILENT), "NoAnswer", ["didn't answer within 5 s", "answers the operator", FORWARD]),
    Case("a time-out, and the nameserver is silent", asked(SILENT, SILENT), "NoAnswer", ["its Pods", "NetworkPolicy"]),
    Case("REFUSED", asked(REFUSED), "QuestionRefused", ["answered REFUSED", "no server that it asks serves", FORWARD]),
    Case("silence over TCP", replace(SEEN, tcp=SILENT), "NoAnswerOverTCP", ["over TCP it didn't answer", "NetworkPol"]),
    Case("a loop", asked(None, targets=["192.0.2.1", SERVER]), "ForwardingLoop", ["isn't asked", "to itself", FORWARD]),
    Case("a loop at a port", replace(asked(None, targets=[SERVER]), server=f"{SERVER}:5353"), "ForwardingLoop"),
    Case("no record", asked(None, denied(OURS)), "RecordsMissing", ["answered NXDOMAIN", "ConfigMap dnsrecords"]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fault_of_the_clusters_dns_is_recognized_and_its_message_has_the_cure(case: Case) -> None:
    found = verdict(case.seen)
    assert (found.zone, found.server, found.fault) == (ZONE, case.seen.server, case.fault)
    needed = [*case.words, ZONE, NAMESERVER] if case.fault else []
    assert [words for words in needed if words not in found.message] == []
    assert bool(found.message) == bool(case.fault)


@pytest.mark.parametrize(
    ("replies", "fault", "words"),
    [
        ([RIGHT], "", ""),
        ([REFUSED, RIGHT], "", ""),
        ([SILENT, SILENT], "NoAnswer", "didn't answer within 5 s when the operator asks it: see the log of its Pods"),
        (
            [SERVFAIL],
            "RecordsMissing",
            f"answered SERVFAIL for the name that the operator wrote into its records for {ZONE}",
        ),
        ([denied(OURS), SILENT], "RecordsMissing", "answered NXDOMAIN for the name"),
        ([OTHER], "RecordsMissing", "answered 192.0.2.1, 192.0.2.2 for the name"),
    ],
)
def test_the_nameserver_has_no_fault_if_it_knows_the_canary_of_at_least_one_zone(
    replies: list[Reply], fault: str, words: str
) -> None:
    found = nameserver_verdict([replace(SEEN, direct=reply) for reply in replies])
    assert (found.fault, words in found.message, bool(found.message)) == (fault, True, bool(fault))


def failing(count: int) -> list[ServerVerdict]:
    """Return the results of the prober for *count* zones that have faults, in reverse order."""
    return [ServerVerdict(f"z{number}", SERVER, f"Fault{number}", f"m{number}") for number in reversed(range(count))]


NOT_YET = ("Unknown", "NotAsked", "the operator hasn't asked the cluster's DNS yet")
WELL = [ServerVerdict("z2", SERVER), ServerVerdict("z1", SERVER), ServerVerdict("z1", "192.0.2.1")]


@pytest.mark.parametrize(
    ("verdicts", "told"),
    [
        (None, NOT_YET),
        ([], NOT_YET),
        (WELL, ("True", "NamesResolve", "the cluster's DNS asks the nameserver for names in z1, z2")),
        ([*failing(2), ServerVerdict("a", SERVER)], ("False", "Fault0", "m0; m1")),
        (failing(3), ("False", "Fault0", "m0; m1; m2")),
        (failing(5), ("False", "Fault0", "m0; m1; m2; and 2 more")),
    ],
)
def test_the_condition_about_the_clusters_dns_names_the_zones_that_work_or_up_to_three_faults(
    verdicts: Sequence[ServerVerdict] | None, told: tuple[str, str, str]
) -> None:
    made = cluster_dns_condition(live_dnsconfig(generation=4), verdicts, [SERVER])
    assert made == condition("ClusterDNSReady", *told, 4)


def test_a_new_leader_keeps_the_condition_about_the_clusters_dns_until_it_has_asked_the_dns_itself() -> None:
    before = condition("ClusterDNSReady", True, "NamesResolve", "told before")
    found = {**live_dnsconfig(), "status": {"conditions": [condition("NameserverReady", True, "A", "B"), before]}}
    assert cluster_dns_condition(found, None, [SERVER]) == before
    assert cluster_dns_condition(found, failing(1), [SERVER])["reason"] == "Fault0"
    nobody = cluster_dns_condition(found, None, [])
    assert (nobody["status"], nobody["reason"]) == ("Unknown", "NotAsked")
    assert "set OPERATOR_CLUSTER_DNS" in nobody["message"]


def test_a_fault_is_shown_after_two_faulty_rounds_and_replaced_after_three_rounds_that_agree() -> None:
    well, one, other, elsewhere = (
        ServerVerdict("z", SERVER, *fault) for fault in ((), ("A", "a"), ("B", "b"), ("A", "c"))
    )
    for shown, before, found, wanted in (
        (None, [], one, one),
        (None, [well, well], one, one),
        (well, [], one, one),
        (one, [], well, well),
        (well, [well, one], one, well),
        (well, [one, well], one, one),
        (well, [other, well], one, one),
        (one, [one, well], well, one),
        (one, [well], well, one),
        (one, [well, other], well, one),
        (one, [well, well], well, well),
        (one, [one, one], other, one),
        (one, [well, other], other, one),
        (one, [other, one], other, one),
        (one, [other, other], other, other),
        (one, [other, other], elsewhere, one),
        (ServerVerdict("y", SERVER, "A", "a"), [well], other, other),
        (ServerVerdict("z", "192.0.2.1", "A", "a"), [well], other, other),
    ):
        assert steady_verdicts([shown] if shown else [], [found], [[each] for each in before]) == (wanted,)
