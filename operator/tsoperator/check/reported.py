"""Turns the leader's report into findings. Pure."""

from collections.abc import Container, Iterable, Iterator
from typing import Final

from tsoperator.check.findings import Finding, Verdict, failed, ok, waiting
from tsoperator.check.listing import Chosen
from tsoperator.check.report import OK, WAITING, LeaderReport, ReportedDNS, ReportedObject, ReportedTailnet

_CHECKS: Final = {"cluster DNS": "cluster-dns"}


def check_report(report: LeaderReport, chosen: Chosen) -> Iterator[Finding]:
    """Yield the findings of *report* about the *chosen* objects, and about what concerns all objects."""
    since = f" since {report.leading_since}" if report.leading_since else ""
    yield ok("leader", f"operator {report.version} in Pod {report.namespace}/{report.pod} leads{since}")
    for refusal in report.refusals:
        where = f"Tailnet {refusal.tailnet}: " if refusal.tailnet else ""
        yield failed(f"tailnet/{refusal.what}", f"{where}{refusal.words}", refusal.cure)
    for tailnet in report.tailnets:
        name = f"Tailnet {tailnet.name}" if tailnet.name else f"the operator's tailnet {tailnet.domain}".rstrip()
        yield from _judged("tailnet", name, tailnet)
    for dns in report.dns:
        yield from _judged(_CHECKS.get(dns.name, dns.name), f"the {dns.name}", dns)
    yield from _objects(chosen.of(report.objects))


def with_looks(told: Iterable[Finding], looked: Iterable[Finding]) -> list[Finding]:
    """Return the findings that the leader has *told*, and those of our own looks that add to them.

    What the leader tells of the tailnet counts, and it knows best that it leads. What we may not look at is left out.
    """
    found = [*told]
    refused = {_name(each) for each in found if each.verdict is Verdict.FAILED and "/" in each.check}
    return found + [each for each in looked if _adds(each, refused)]


def _adds(looked: Finding, refused: Container[str]) -> bool:
    if looked.verdict is Verdict.UNSEEN or _name(looked) in refused:
        return False
    return looked.verdict is not Verdict.OK or looked.check != "leader"


def _name(finding: Finding) -> str:
    """Return the name of a check of the tailnet, whoever made it: ``tailnet/tags``, ``preflight/tags``."""
    return finding.check.rpartition("/")[2]


def _objects(objects: Iterable[ReportedObject]) -> Iterator[Finding]:
    served = 0
    for each in objects:
        if each.verdict == OK:
            served += 1
        else:
            yield from _judged("objects", str(each), each)
    if served:
        yield ok("objects", f"objects that are served: {served}", served)


def _judged(check: str, name: str, each: ReportedObject | ReportedTailnet | ReportedDNS) -> Iterator[Finding]:
    words = ": ".join(filter(None, (name, each.words or each.reason)))
    if each.verdict == OK:
        yield ok(check, words)
    elif each.verdict == WAITING:
        yield waiting(check, words, each.cure)
    else:
        yield failed(check, words, each.cure)
