"""Turns the leader's report into findings. Pure."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tsoperator.api.objects import DNSCONFIG, TAILNET
from tsoperator.check.findings import OBJECTS, Finding, Verdict, failed, ok, waiting
from tsoperator.check.listing import Chosen
from tsoperator.check.replicas import LACKS, WATCHES
from tsoperator.check.report import (
    OK,
    WAITING,
    LeaderReport,
    ReportedDNS,
    ReportedObject,
    ReportedRefusal,
    ReportedTailnet,
)
from tsoperator.dns.probe.answers import Fault

API_SERVER: Final = "API server"
"""The value of `ReportedRefusal.by` if the API server has refused something."""
PREFLIGHT_FAILED: Final = "PreflightFailed"
"""The reason in the verdict on a tailnet if its preflight failed. We leave out this verdict, because the report also
has the refusals, with their details."""

_REFUSED: Final = ("tailnet/", "preflight/", WATCHES)
_TOLD_BETTER: Final = ("leader", "preflight")
_DNS: Final = ("nameserver", "cluster-dns")
_CHECKS: Final = {"cluster DNS": "cluster-dns"}
_ANSWERS: Final = frozenset(Fault)
"""The reasons of a DNSConfig's condition that say that the cluster's DNS answers wrongly, but not why it does."""


def check_report(report: LeaderReport, chosen: Chosen) -> Iterator[Finding]:
    """Yield the findings of *report* about the *chosen* objects, and about the parts that all objects depend on."""
    since = f" since {report.leading_since}" if report.leading_since else ""
    yield ok("leader", f"operator {report.version} in Pod {report.namespace}/{report.pod} leads{since}")
    objects = chosen.of(report.objects)
    # The verdict on a Tailnet has its refusals already, and several parts can have the same words: we report them once.
    unready = {each.name for each in objects if each.kind == TAILNET.kind and each.verdict != OK}
    yield from (_refused(each) for each in report.refusals if each.tailnet not in unready)
    refused = {each.tailnet for each in report.refusals}
    said = {each.words for each in objects if each.words and each.verdict != OK}
    for tailnet in report.tailnets:
        if tailnet.words in said or (tailnet.name in refused and tailnet.reason == PREFLIGHT_FAILED):
            continue
        name = f"Tailnet {tailnet.name}" if tailnet.name else f"the operator's tailnet {tailnet.domain}".rstrip()
        yield from _judged("tailnet", name, tailnet)
    for dns in (each for each in report.dns if each.words not in said and not _follows(each, report.dns)):
        yield from _judged(_check_of(dns), f"the {dns.name}", dns)
    yield from _objects(objects, {each.words: _check_of(each) for each in report.dns if each.words})


def _check_of(dns: ReportedDNS) -> str:
    return _CHECKS.get(dns.name, dns.name)


def _follows(dns: ReportedDNS, parts: Iterable[ReportedDNS]) -> bool:
    """Tell whether *dns*, a part of name resolution, only waits for another of the *parts*, which has failed."""
    return dns.verdict == WAITING and any(each.verdict not in (OK, WAITING) for each in parts)


def _refused(refusal: ReportedRefusal) -> Finding:
    if refusal.by == API_SERVER:
        return failed(WATCHES, refusal.words, refusal.cure)
    where = f"Tailnet {refusal.tailnet}: " if refusal.tailnet else ""
    said = " ".join(filter(None, (refusal.words, refusal.cure)))
    lacks = LACKS.get(refusal.what)  # shorter words than the message of the refusal
    words, cure = (lacks, said) if lacks else (refusal.words, refusal.cure)
    return failed(f"tailnet/{refusal.what}", f"{where}{words}", cure)


def with_looks(told: Iterable[Finding], looked: Iterable[Finding]) -> list[Finding]:
    """Return the findings of the leader's report (*told*), and those of our own looks (*looked*) that add to them.

    We leave out a finding of ours if its verdict is UNSEEN, or if a finding of the leader explains its fault. If the
    leader reports that a check of the tailnet has failed, or that the API server refuses a watch, we leave out our
    finding of that check. We also leave out a good finding that repeats a check of the leader. If we find another fault
    of the nameserver or of the cluster's DNS, our finding replaces the leader's, because ours says where the fault is.
    """
    ours = [each for each in looked if each.verdict is not Verdict.UNSEEN]
    told = [*told]
    explained = {each.explains for each in told if each.verdict is Verdict.FAILED} - {""}
    ours = [each for each in ours if explained.isdisjoint((each.check, each.about))]
    closer = {each.check for each in ours if each.verdict is Verdict.FAILED and each.check in _DNS}
    found = [each for each in told if each.check not in closer and each.explains not in closer]
    refused = {_name(each) for each in found if each.verdict is Verdict.FAILED and each.check.startswith(_REFUSED)}
    known = {*_TOLD_BETTER, *(each.check for each in found if each.check in _DNS)}
    return found + [each for each in ours if _adds(each, refused, known)]


def _adds(looked: Finding, refused: Container[str], known: Container[str]) -> bool:
    """Tell whether *looked* adds to the leader's findings.

    The leader reports that the checks in *refused* have failed: our findings of these checks add nothing. A good
    finding of a check in *known* adds nothing either.
    """
    if looked.check.startswith(_REFUSED) and _name(looked) in refused:
        return False
    return looked.verdict is not Verdict.OK or looked.check not in known


def _name(finding: Finding) -> str:
    """Return the name of a finding's check without its prefix, such as ``tags`` for ``tailnet/tags``."""
    return finding.check.rpartition("/")[2]


def _objects(objects: Iterable[ReportedObject], dns: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about *objects*.

    A key of *dns* is the words of the report about a part of name resolution, and the value is the check of that part.
    """
    served = 0
    for each in objects:
        if each.verdict == OK:
            served += 1
        else:
            yield from (_explaining(finding, each, dns) for finding in _judged(OBJECTS, str(each), each))
    if served:
        yield ok(OBJECTS, f"objects that are served: {served}", served)


def _explaining(finding: Finding, each: ReportedObject, dns: Mapping[str, str]) -> Finding:
    """Return the *finding* about the object *each*, with the field `explains` set.

    The fault of a Tailnet explains all faults of its tailnet. If *dns* has a check for the words of a DNSConfig,
    the DNSConfig explains the faults of that check. But a DNSConfig that says only that the cluster's DNS answers
    wrongly explains nothing: its finding becomes one of that check, so that the finding of our own look can replace it.
    """
    if each.kind == TAILNET.kind:
        return replace(finding, explains=str(each))
    check = dns.get(each.words, "") if each.kind == DNSCONFIG.kind else ""
    if check and each.reason in _ANSWERS:
        return replace(finding, check=check)
    return replace(finding, explains=check)


def _judged(check: str, name: str, each: ReportedObject | ReportedTailnet | ReportedDNS) -> Iterator[Finding]:
    words = ": ".join(filter(None, (name, each.words or each.reason)))
    if each.verdict == OK:
        yield ok(check, words)
    elif each.verdict == WAITING:
        yield waiting(check, words, each.cure)
    else:
        yield failed(check, words, each.cure)
