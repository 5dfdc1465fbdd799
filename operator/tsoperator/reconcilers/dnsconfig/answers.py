"""Decides from answers whether the cluster's DNS asks the nameserver, and if not, what is wrong (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tsoperator.api.conditions import condition
from tsoperator.api.names import CONDITION_CLUSTER_DNS_READY
from tsoperator.api.objects import Object
from tsoperator.api.rules import server_address

READY: Final = "NamesResolve"
NOT_ASKED: Final = "NotAsked"

_NOT_YET: Final = "the operator hasn't asked the cluster's DNS yet"
_NO_SERVER: Final = (
    "the operator doesn't know which DNS server Pods ask, because its own resolv.conf isn't that of a Pod with the "
    "cluster's DNS: set OPERATOR_CLUSTER_DNS to the address"
)
_NAMED: Final = 3  # how many faults the condition names
_PAGE: Final = "status.clusterDNS.snippet has what to write, and docs/dns.md says where"
_OTHER_SERVER: Final = "if Pods ask another server, set OPERATOR_CLUSTER_DNS to its address"


class Fault(StrEnum):
    """Why names don't resolve: the reasons of the condition."""

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
    """The SOA record that a negative answer came with: the zone, who serves it, and the version of its records."""

    zone: str
    mname: str
    rname: str
    serial: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: an *rcode* with *addresses* or an *authority*; or a *failure*, in words, if no message did."""

    rcode: str = ""
    addresses: frozenset[str] = frozenset()
    authority: Authority | None = None
    failure: str = ""

    @property
    def denies(self) -> bool:
        """Tell whether this says that the name doesn't exist, or has no address."""
        return self.rcode == "NXDOMAIN" or (self.rcode == "NOERROR" and not self.addresses)

    @property
    def words(self) -> str:
        """What came back, as a verb and its object."""
        if self.failure:
            return self.failure
        if self.addresses:
            return f"answered {', '.join(sorted(self.addresses))}"
        return "answered without an address" if self.rcode == "NOERROR" else f"answered {self.rcode}"


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known of one *zone* at one *server* of the cluster's DNS.

    *direct* is what the nameserver, at the address *nameserver*, says of the canary when it is asked itself. *udp* and
    *tcp* are what the server says of it; None where it wasn't asked. *fresh* and *fresh_direct* are what the server and
    the nameserver say of a name that nobody has asked for before. *targets* are the addresses to which the server's
    configuration forwards the zone, where that is known.
    """

    zone: str
    server: str
    nameserver: str
    direct: Reply
    udp: Reply | None = None
    tcp: Reply | None = None
    fresh: Reply | None = None
    fresh_direct: Reply | None = None
    targets: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one *server* resolves names in one *zone*: *fault* is empty if it does, and *message* says why not."""

    zone: str
    server: str
    fault: str = ""
    message: str = ""


def gives(reply: Reply | None, address: str) -> bool:
    """Tell whether *reply* is the canary's address."""
    return reply is not None and address in reply.addresses


def is_of_ours(reply: Reply) -> bool:
    """Tell whether a negative *reply* is from a nameserver of this project: its SOA says so."""
    said = reply.authority
    return said is not None and said.rname == f"hostmaster.{said.zone}" and said.mname.startswith("nameserver.")


def verdict(seen: Seen) -> Verdict:
    """Judge what was *seen*."""
    fault, message = _records_missing(seen) if seen.udp is None else _judged(seen, seen.udp)
    return Verdict(seen.zone, seen.server, fault, message)


def _records_missing(seen: Seen) -> tuple[str, str]:
    return Fault.RECORDS_MISSING, (
        f"the nameserver at {seen.nameserver} {seen.direct.words} for the name that the operator wrote into its "
        f"records for {seen.zone}: see whether its Pods read ConfigMap dnsrecords, and whether it serves that zone"
    )


def _judged(seen: Seen, udp: Reply) -> tuple[str, str]:
    zone, where, at = seen.zone, f"the cluster's DNS at {seen.server}", seen.nameserver
    if gives(udp, at):
        if seen.tcp is None or gives(seen.tcp, at):
            return "", ""
        return Fault.NO_ANSWER_OVER_TCP, (
            f"{where} resolves names in {zone} over UDP, but over TCP it {seen.tcp.words}: let TCP port 53 through to "
            f"it, and from it to the nameserver at {at}, in firewalls and NetworkPolicies"
        )
    said = f"{where} {udp.words} for a name in {zone}"
    forward = f"forward {zone} to the nameserver at {at}: {_PAGE}"
    if server_address(seen.server)[0] in seen.targets:
        return Fault.FORWARDING_LOOP, f"{said}, because it forwards {zone} to itself. Instead, {forward}"
    if udp.failure:
        return Fault.NO_ANSWER, f"{said}: {_unanswered(seen)}"
    if udp.addresses:
        return Fault.WRONG_ADDRESS, (
            f"{said} that should lead to {at}: another server answers for {zone}. To mend that, {forward}"
        )
    if udp.denies:
        return _denied(seen, udp)
    if udp.rcode == "SERVFAIL":
        return Fault.SERVER_FAILURE, f"{said}: {_unanswered(seen)}"
    return Fault.QUESTION_REFUSED, f"{said}: no server that it asks serves {zone}. To mend that, {forward}"


def _denied(seen: Seen, udp: Reply) -> tuple[str, str]:
    """Judge the answer *udp* that there is no such name, by who says so."""
    zone, at = seen.zone, seen.nameserver
    said = f"the cluster's DNS at {seen.server} {udp.words} for a name in {zone} that the nameserver at {at} knows"
    forward = f"forward {zone} to {at}: {_PAGE}"
    if not is_of_ours(udp):
        return Fault.NOT_FORWARDED, f"{said}, because it doesn't ask the nameserver: {forward}; {_OTHER_SERVER}"
    if _serial(seen.fresh) is not None and _serial(seen.fresh) == _serial(seen.fresh_direct):
        return Fault.CACHED_NEGATIVE, (
            f"{said}. It does ask the nameserver for new names, so it keeps answers that there is no such name for too "
            f"long: write a short `denial` into its cache for {zone}: {_PAGE}"
        )
    return Fault.WRONG_ADDRESS, f"{said}, because it asks another nameserver: {forward}"


def _serial(reply: Reply | None) -> int | None:
    return reply.authority.serial if reply is not None and reply.authority is not None else None


def _unanswered(seen: Seen) -> str:
    """Say why a server may have no answer, from what the nameserver itself says."""
    zone, at = seen.zone, seen.nameserver
    if not gives(seen.direct, at):
        return (
            f"the nameserver at {at} {seen.direct.words} when the operator asks it, too. See whether its Pods are "
            "ready, and whether a NetworkPolicy keeps questions from them"
        )
    return (
        f"the nameserver at {at} answers the operator, so a NetworkPolicy keeps the cluster's DNS from it, or the "
        f"cluster's DNS forwards {zone} to an address where nobody answers, or back to itself. Forward {zone} to {at}: "
        f"{_PAGE}; {_OTHER_SERVER}"
    )


def cluster_dns_condition(dnsconfig: Object, verdicts: Sequence[Verdict] | None, servers: Sequence[str]) -> Object:
    """Return the condition of *dnsconfig* that *verdicts* on *servers* lead to.

    While there are none, the condition stays as the operator's Pod that led before has left it.
    """
    generation = int(dnsconfig["metadata"].get("generation", 0))
    if not servers:
        return condition(CONDITION_CLUSTER_DNS_READY, "Unknown", NOT_ASKED, _NO_SERVER, generation)
    if not verdicts:
        before = (dnsconfig.get("status") or {}).get("conditions") or ()
        unknown = condition(CONDITION_CLUSTER_DNS_READY, "Unknown", NOT_ASKED, _NOT_YET, generation)
        return next((each for each in before if each["type"] == CONDITION_CLUSTER_DNS_READY), unknown)
    wrong = sorted((each for each in verdicts if each.fault), key=lambda each: (each.zone, each.server))
    if wrong:
        message = "; ".join(each.message for each in wrong[:_NAMED])
        if wrong[_NAMED:]:
            message += f"; and {len(wrong) - _NAMED} more"
        return condition(CONDITION_CLUSTER_DNS_READY, False, wrong[0].fault, message, generation)
    zones = ", ".join(sorted({each.zone for each in verdicts}))
    message = f"the cluster's DNS asks the nameserver for names in {zones}"
    return condition(CONDITION_CLUSTER_DNS_READY, True, READY, message, generation)
