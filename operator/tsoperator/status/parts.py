"""Describes the parts of the report that aren't about single objects: tailnets, name resolution, and refusals."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tsoperator.api.conditions import conditions_of
from tsoperator.api.names import (
    CONDITION_CLUSTER_DNS_CONFIGURED,
    CONDITION_CLUSTER_DNS_READY,
    CONDITION_NAMESERVER_READY,
)
from tsoperator.api.objects import Object
from tsoperator.status.conditions import Grade, Judgement, judge, judge_conditions

NO_DNSCONFIG: Final = "there is no DNSConfig; make one for the cluster's Pods to resolve tailnet names"
NOT_LOOKED: Final = "the operator has not looked at the tailnet yet"
SET_UP: Final = "the tailnet is set up for the operator, as far as it can see"

_RECORDS: Final = "RecordsComplete"  # the condition that a DNSConfig has only while names are missing


class StatusReport(NamedTuple):
    """The report as JSON, and a *digest* of its content without the time at which it was made."""

    body: bytes
    digest: str


Part = dict[str, str]
"""A part of the report, with its fields as they are named in JSON. Empty fields are left out, except for ``name``."""


@dataclass(frozen=True, slots=True)
class TailnetFacts:
    """The facts about a tailnet. *name* is the name of its Tailnet, or empty for the operator's own tailnet.

    *domains* are the domains of its devices. *wrong* has a message for each failed check of the preflight, and
    *is_looked* tells whether there has been a preflight. *tailnet* is the Tailnet itself.
    """

    name: str
    url: str = ""
    domains: Iterable[str] = ()
    is_looked: bool = False
    wrong: Mapping[str, str] = field(default_factory=dict)
    tailnet: Object | None = None


def tailnet_part(facts: TailnetFacts) -> Part:
    """Describe a tailnet by a false condition of its Tailnet, or else by the result of its latest preflight."""
    told = judge_conditions(facts.tailnet) if facts.tailnet else None
    if told is None or told.grade is Grade.OK:
        told = _checked(facts, told)
    domain = ", ".join(sorted(filter(None, facts.domains)))
    return _part(told, name=facts.name, controlURL=facts.url, domain=domain)


def _checked(facts: TailnetFacts, told: Judgement | None) -> Judgement:
    if facts.wrong:
        return Judgement(Grade.FAILED, "PreflightFailed", "; ".join(facts.wrong.values()))
    if not facts.is_looked:
        return Judgement(Grade.WAITING, words=NOT_LOOKED)
    return told or Judgement(Grade.OK, words=SET_UP)


def dns_parts(dnsconfig: Object | None) -> Iterator[Part]:
    """Describe the nameserver and the cluster's DNS, by the conditions of *dnsconfig*, the DNSConfig in force.

    If *dnsconfig* is None, yield one part that says that there is no DNSConfig.
    """
    if dnsconfig is None:
        yield _part(Judgement(Grade.OK, words=NO_DNSCONFIG), name="nameserver")
        return
    found = {each["type"]: each for each in conditions_of(dnsconfig)}
    for name, types in (
        ("nameserver", (_RECORDS, CONDITION_NAMESERVER_READY)),
        ("cluster DNS", (CONDITION_CLUSTER_DNS_READY, CONDITION_CLUSTER_DNS_CONFIGURED)),
    ):  # if both conditions are false, the second one has the cause
        told = [judge(found[each]) for each in types if each in found]
        wrong = [each for each in told if each.grade is Grade.FAILED]
        worst = wrong[-1] if wrong else next(iter(told), None)
        yield _part(worst or Judgement(Grade.WAITING, words="the operator has not looked at it yet"), name=name)


def refusal_parts(tailnets: Iterable[TailnetFacts], unseen: Iterable[tuple[str, str]]) -> Iterator[Part]:
    """Describe what the control servers refuse, by the preflights of *tailnets*, and what the API server refuses.

    *unseen* has each resource that the operator isn't allowed to see, with the namespace; empty means all namespaces.
    """
    for tailnet in tailnets:
        for check, words in tailnet.wrong.items():
            yield _filled({"what": check, "by": "control server", "tailnet": tailnet.name, "words": words})
    for resource, namespace in sorted(unseen):
        words = unseen_words(resource, namespace)
        yield _filled({"what": resource, "by": "API server", "words": words, "cure": UNSEEN_CURE})


UNSEEN_CURE: Final = (
    "see that the chart's roles and their bindings are there (`helm upgrade` puts them back), and the namespace too"
)


def unseen_words(resource: str, namespace: str) -> str:
    """Say that the operator isn't allowed to see objects of *resource* in *namespace*; empty means all namespaces."""
    return f"the operator may not see {resource}" + (f" in namespace {namespace}" if namespace else "")


def _part(judged: Judgement, **fields: str) -> Part:
    told = {"verdict": judged.grade.value, "reason": judged.reason, "words": judged.words}
    return {"name": "", **_filled({**fields, **told, "cure": judged.cure, "since": judged.since})}


def _filled(part: Part) -> Part:
    return {key: value for key, value in part.items() if value}
