"""Judges from DNS answers whether the cluster's DNS asks the nameserver, and names the fault if it doesn't (pure)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tsoperator.api.conditions import condition, conditions_of
from tsoperator.api.names import CONDITION_CLUSTER_DNS_READY
from tsoperator.api.objects import Object, generation_of
from tsoperator.api.rules import server_address

READY: Final = "NamesResolve"
NOT_ASKED: Final = "NotAsked"

_NOT_YET: Final = "the operator hasn't asked the cluster's DNS yet"
_NO_SERVER: Final = (
    "the operator doesn't know which DNS server Pods ask, because its own resolv.conf isn't that of a Pod with the "
    "cluster's DNS: set OPERATOR_CLUSTER_DNS to the address"
)
_NAMED: Final = 3  # how many faults the condition names
ROUNDS: Final = 3
"""The number of consecutive rounds of queries that must find the same verdict before that verdict replaces a fault."""
_SNIPPET: Final = "status.clusterDNS.snippet has what to write and where (docs/dns.md)"
_OTHER_SERVER: Final = "if Pods ask another server, set OPERATOR_CLUSTER_DNS to its address"


class Fault(StrEnum):
    """The reasons why names don't resolve. Each value can be the reason in a condition of a DNSConfig."""

    NOT_FORWARDED = "NotForwarded"
    WRONG_ADDRESS = "WrongAddress"
    QUESTION_REFUSED = "QuestionRefused"
    SERVER_FAILURE = "ServerFailure"
    NO_ANSWER = "NoAnswer"
    FORWARDING_LOOP = "ForwardingLoop"
    NO_ANSWER_OVER_TCP = "NoAnswerOverTCP"
    CACHED_NEGATIVE = "CachedNegativeAnswer"
    RECORDS_MISSING = "RecordsMissing"


@dataclass(frozen=True, slots=True)
class Authority:
    """The SOA record of a negative answer: the *zone*, its primary server, the contact, and the zone's *serial*."""

    zone: str
    mname: str
    rname: str
    serial: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a DNS query.

    If there was an answer, the result has its *rcode*, *addresses* and *authority*. Otherwise *failure* says why not.
    """

    rcode: str = ""
    addresses: frozenset[str] = frozenset()
    authority: Authority | None = None
    failure: str = ""

    @property
    def denies(self) -> bool:
        """True if the server says that the name doesn't exist, or has no address."""
        return self.rcode == "NXDOMAIN" or (self.rcode == "NOERROR" and not self.addresses)

    @property
    def words(self) -> str:
        """The result of the query in words that can follow the name of the server, such as "answered NXDOMAIN"."""
        if self.failure:
            return self.failure
        if self.addresses:
            return f"answered {', '.join(sorted(self.addresses))}"
        return "answered without an address" if self.rcode == "NOERROR" else f"answered {self.rcode}"


@dataclass(frozen=True, slots=True)
class ZoneReplies:
    """The replies about one *zone* from one *server* of the cluster's DNS and from the nameserver.

    *direct* is the reply of the nameserver itself, at the address *nameserver*, to the operator's query for the canary.
    *udp* and *tcp* are the server's replies to the same query; None if the operator didn't ask the server. *fresh* and
    *fresh_direct* are the replies of the server and of the nameserver to a query for a name for which nobody has asked
    before. *targets* are the addresses to which the configuration of the cluster's DNS forwards the zone; None if they
    aren't known.
    """

    zone: str
    server: str
    nameserver: str
    direct: Reply
    udp: Reply | None = None
    tcp: Reply | None = None
    fresh: Reply | None = None
    fresh_direct: Reply | None = None
    targets: Sequence[str] | None = None

    @property
    def loops(self) -> bool:
        """True if the server forwards the zone to itself. A single query can exhaust the memory of such a server."""
        return server_address(self.server)[0] in (self.targets or ())


@dataclass(frozen=True, slots=True)
class ServerVerdict:
    """The verdict on one DNS *server* for one *zone*.

    *fault* is empty if names in the zone resolve at this server. Otherwise *message* says why they don't.
    """

    zone: str
    server: str
    fault: str = ""
    message: str = ""


def gives(reply: Reply | None, address: str) -> bool:
    """Tell whether *reply* has *address*, which is the right answer for the canary."""
    return reply is not None and address in reply.addresses


def is_of_ours(reply: Reply) -> bool:
    """Tell whether a negative *reply* is from a nameserver of this project, by the SOA record in the reply."""
    said = reply.authority
    return said is not None and said.rname == f"hostmaster.{said.zone}" and said.mname.startswith("nameserver.")


def nameserver_verdict(seen: Sequence[ZoneReplies]) -> ServerVerdict:
    """Return the verdict on the nameserver, from its own answers in each zone.

    The nameserver works if it gives the right answer for at least one canary. Even then, it can lack the records of a
    new zone, or refuse a zone.
    """
    first = seen[0]
    if any(gives(each.direct, each.nameserver) for each in seen):
        return ServerVerdict("", first.nameserver)
    if not first.direct.failure:
        return ServerVerdict("", first.nameserver, Fault.RECORDS_MISSING, _missing_records_message(first))
    message = (
        f"the nameserver at {first.nameserver} {first.direct.failure} when the operator asks it: see the log of its "
        "Pods, and whether a NetworkPolicy keeps questions from them (port 1053, UDP and TCP)"
    )
    return ServerVerdict("", first.nameserver, Fault.NO_ANSWER, message)


def verdict(seen: ZoneReplies) -> ServerVerdict:
    """Return the verdict on one server of the cluster's DNS, from its replies for one zone."""
    fault, message = _fault_and_message(seen, seen.udp)
    return ServerVerdict(seen.zone, seen.server, fault, message)


def _fault_and_message(seen: ZoneReplies, udp: Reply | None) -> tuple[str, str]:
    where, at = f"the cluster's DNS at {seen.server}", seen.nameserver
    if seen.loops:
        return Fault.FORWARDING_LOOP, f"{where} isn't asked, because a question would go round in it: {_cure(seen)}"
    if udp is None:
        return Fault.RECORDS_MISSING, _missing_records_message(seen)
    if not gives(udp, at):
        said = f"{where} {udp.words} for a name in {seen.zone} that leads to the nameserver, {at}"
        return _fault_of(seen, udp), f"{said}: {_cause(seen, udp)}"
    if seen.tcp is None or gives(seen.tcp, at):
        return "", ""
    return Fault.NO_ANSWER_OVER_TCP, (
        f"{where} resolves names in {seen.zone} over UDP, but over TCP it {seen.tcp.words}: let TCP port 53 through to "
        f"it, and from it to the nameserver at {at}, in firewalls and NetworkPolicies"
    )


def _missing_records_message(seen: ZoneReplies) -> str:
    return (
        f"the nameserver at {seen.nameserver} {seen.direct.words} for the name that the operator wrote into its "
        f"records for {seen.zone}: see whether its Pods read ConfigMap dnsrecords, and whether it serves that zone"
    )


def _fault_of(seen: ZoneReplies, udp: Reply) -> Fault:
    if udp.failure:
        return Fault.NO_ANSWER
    if udp.addresses:
        return Fault.WRONG_ADDRESS
    if udp.denies and is_of_ours(udp):
        is_cached = _serial(seen.fresh) is not None and _serial(seen.fresh) == _serial(seen.fresh_direct)
        return Fault.CACHED_NEGATIVE if is_cached else Fault.WRONG_ADDRESS
    if udp.denies or (seen.targets is not None and not seen.targets):
        return Fault.NOT_FORWARDED
    return Fault.SERVER_FAILURE if udp.rcode == "SERVFAIL" else Fault.QUESTION_REFUSED


def _cause(seen: ZoneReplies, udp: Reply) -> str:
    """Say why the server of the cluster's DNS gave the answer *udp*, and what to do."""
    match _fault_of(seen, udp):
        case Fault.CACHED_NEGATIVE:
            return (
                "it asks the nameserver for new names, but keeps answers that there is no such name for too long. "
                f"Write a short `denial` into its cache for {seen.zone}: {_SNIPPET}"
            )
        case Fault.SERVER_FAILURE | Fault.NO_ANSWER if not gives(seen.direct, seen.nameserver):
            return (
                f"the nameserver {seen.direct.words} when the operator asks it, too. See whether its Pods are ready, "
                "and whether a NetworkPolicy keeps questions from them"
            )
        case Fault.SERVER_FAILURE | Fault.NO_ANSWER:
            return (
                "the nameserver answers the operator, so the cluster's DNS can't reach it (a NetworkPolicy), or asks "
                f"an address where nobody answers, or itself. {_capital(_cure(seen))}"
            )
        case Fault.WRONG_ADDRESS:
            return f"another server answers for the zone. {_capital(_cure(seen))}"
        case Fault.QUESTION_REFUSED:
            return f"no server that it asks serves the zone. {_capital(_cure(seen))}"
    return f"it doesn't ask the nameserver. {_capital(_cure(seen))}; {_OTHER_SERVER}"


def _cure(seen: ZoneReplies) -> str:
    """Say to which addresses the cluster's DNS forwards the zone, if that is known, and to which it should."""
    forward = f"forward {seen.zone} to {seen.nameserver}: {_SNIPPET}"
    if seen.targets is None:
        return forward
    if not seen.targets:
        return f"its configuration doesn't forward {seen.zone}: {forward}"
    to = "itself" if seen.loops else ", ".join(seen.targets)
    if {*seen.targets} == {seen.nameserver}:
        return (
            f"its configuration forwards {seen.zone} to {to}, as it should: wait until it has loaded that, or restart "
            "it. NodeLocal DNSCache has a configuration of its own"
        )
    return f"its configuration forwards {seen.zone} to {to}: {forward}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _serial(reply: Reply | None) -> int | None:
    return reply.authority.serial if reply is not None and reply.authority is not None else None


def steady_verdicts(
    shown: Iterable[ServerVerdict], found: Iterable[ServerVerdict], before: Sequence[Iterable[ServerVerdict]]
) -> tuple[ServerVerdict, ...]:
    """Return the verdicts that the status should show next.

    *shown* are the verdicts that the status shows now, and *found* are those of the present round. *before* has the
    verdicts of earlier rounds with the same question, the newest round first. If it is empty, because the question has
    just changed, the result is *found*.
    """
    now = _by_server(shown)
    earlier = [_by_server(each) for each in before]
    steady = []
    for each in found:
        at = (each.zone, each.server)
        steady.append(_steady(now.get(at), each, [known[at] for known in earlier if at in known]))
    return tuple(steady)


def _by_server(verdicts: Iterable[ServerVerdict]) -> dict[tuple[str, str], ServerVerdict]:
    return {(each.zone, each.server): each for each in verdicts}


def _steady(shown: ServerVerdict | None, found: ServerVerdict, before: Sequence[ServerVerdict]) -> ServerVerdict:
    """Return the verdict that the status should show next on one server for one zone.

    If the Pods of the cluster's DNS differ, each query can reach another Pod, and one fault can show itself as several.
    So the status shows a fault only when two rounds in a row have found a fault. It shows that fault until `ROUNDS`
    rounds in a row have found one and the same other verdict.
    """
    if shown is None or not before:
        return found
    is_certain = [*before[: ROUNDS - 1]] == [found] * (ROUNDS - 1) if shown.fault else bool(before[0].fault)
    return found if is_certain else shown


def cluster_dns_condition(
    dnsconfig: Object, verdicts: Sequence[ServerVerdict] | None, servers: Sequence[str]
) -> Object:
    """Return the condition ClusterDNSReady of *dnsconfig*: whether the cluster's DNS asks the nameserver.

    *servers* are the servers of the cluster's DNS, and *verdicts* are those on them. If there are no verdicts yet,
    return the condition that *dnsconfig* has now.
    """
    generation = generation_of(dnsconfig)
    if not servers:
        return condition(CONDITION_CLUSTER_DNS_READY, "Unknown", NOT_ASKED, _NO_SERVER, generation)
    if not verdicts:
        unknown = condition(CONDITION_CLUSTER_DNS_READY, "Unknown", NOT_ASKED, _NOT_YET, generation)
        return next((each for each in conditions_of(dnsconfig) if each["type"] == CONDITION_CLUSTER_DNS_READY), unknown)
    wrong = sorted((each for each in verdicts if each.fault), key=lambda each: (each.zone, each.server))
    if wrong:
        message = "; ".join(each.message for each in wrong[:_NAMED])
        if wrong[_NAMED:]:
            message += f"; and {len(wrong) - _NAMED} more"
        return condition(CONDITION_CLUSTER_DNS_READY, False, wrong[0].fault, message, generation)
    zones = ", ".join(sorted({each.zone for each in verdicts}))
    message = f"the cluster's DNS asks the nameserver for names in {zones}"
    return condition(CONDITION_CLUSTER_DNS_READY, True, READY, message, generation)
