"""Turns the leader's report into findings. Pure."""

from collections.abc import Container, Iterable, Iterator
from typing import Final

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

API_SERVER: Final = "API server"
"""The server that refuses, in a `ReportedRefusal`."""
PREFLIGHT_FAILED: Final = "PreflightFailed"
"""The reason in the verdict on a tailnet if its preflight failed. The report also has the refusals, with their
details."""

_REFUSED: Final = ("tailnet/", "preflight/", WATCHES)
_TOLD_BETTER: Final = ("leader", "preflight")
_DNS: Final = ("nameserver", "cluster-dns")
_CHECKS: Final = {"cluster DNS": "cluster-dns"}


def check_report(report: LeaderReport, chosen: Chosen) -> Iterator[Finding]:
    """Yield the findings of *report* about the *chosen* objects, and about the parts that all objects depend on."""
    since = f" since {report.leading_since}" if report.leading_since else ""
    yield ok("leader", f"operator {report.version} in Pod {report.namespace}/{report.pod} leads{since}")
    yield from map(_refused, report.refusals)
    refused = {each.tailnet for each in report.refusals}
    objects = chosen.of(report.objects)
    said = {each.words for each in objects if each.words and each.verdict != OK}  # others may say the same
    for tailnet in report.tailnets:
        if tailnet.words in said or (tailnet.name in refused and tailnet.reason == PREFLIGHT_FAILED):
            continue
        name = f"Tailnet {tailnet.name}" if tailnet.name else f"the operator's tailnet {tailnet.domain}".rstrip()
        yield from _judged("tailnet", name, tailnet)
    for dns in (each for each in report.dns if each.words not in said):
        yield from _judged(_CHECKS.get(dns.name, dns.name), f"the {dns.name}", dns)
    yield from _objects(objects)


def _refused(refusal: ReportedRefusal) -> Finding:
    if refusal.by == API_SERVER:
        return failed(WATCHES, refusal.words, refusal.cure)
    where = f"Tailnet {refusal.tailnet}: " if refusal.tailnet else ""
    said = " ".join(filter(None, (refusal.words, refusal.cure)))
    lacks = LACKS.get(refusal.what)  # a short form of the refusal's long message
    words, cure = (lacks, said) if lacks else (refusal.words, refusal.cure)
    return failed(f"tailnet/{refusal.what}", f"{where}{words}", cure)


def with_looks(told: Iterable[Finding], looked: Iterable[Finding]) -> list[Finding]:
    """Return the findings that the leader has *told*, and those of our own looks that add to them.

    About the tailnet and the election, the leader's findings count. A fault of the cluster's DNS that we have seen
    ourselves counts, because we know where it is. Things that we may not look at are left out.
    """
    ours = [each for each in looked if each.verdict is not Verdict.UNSEEN]
    closer = {each.check for each in ours if each.verdict is Verdict.FAILED and each.check in _DNS}
    found = [each for each in told if each.check not in closer]
    refused = {_name(each) for each in found if each.verdict is Verdict.FAILED and each.check.startswith(_REFUSED)}
    known = {*_TOLD_BETTER, *(each.check for each in found if each.check in _DNS)}
    return found + [each for each in ours if _adds(each, refused, known)]


def _adds(looked: Finding, refused: Container[str], known: Container[str]) -> bool:
    """Tell whether *looked* adds to the leader's findings.

    *refused* are the checks that the leader reports as failed. For a check in *known*, a good result adds nothing.
    """
    if looked.check.startswith(_REFUSED) and _name(looked) in refused:
        return False
    return looked.verdict is not Verdict.OK or looked.check not in known


def _name(finding: Finding) -> str:
    """Return the name of a check of the tailnet without its prefix:

    ``tags`` of ``tailnet/tags`` and ``preflight/tags``.
    """
    return finding.check.rpartition("/")[2]


def _objects(objects: Iterable[ReportedObject]) -> Iterator[Finding]:
    served = 0
    for each in objects:
        if each.verdict == OK:
            served += 1
        else:
            yield from _judged(OBJECTS, str(each), each)
    if served:
        yield ok(OBJECTS, f"objects that are served: {served}", served)


def _judged(check: str, name: str, each: ReportedObject | ReportedTailnet | ReportedDNS) -> Iterator[Finding]:
    words = ": ".join(filter(None, (name, each.words or each.reason)))
    if each.verdict == OK:
        yield ok(check, words)
    elif each.verdict == WAITING:
        yield waiting(check, words, each.cure)
    else:
        yield failed(check, words, each.cure)
