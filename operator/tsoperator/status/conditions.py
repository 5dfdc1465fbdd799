"""Judges an object by the operator's conditions in its status, and an Ingress by the name in its status."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from tsoperator.api import names
from tsoperator.api.conditions import FALSE, TRUE, conditions_of
from tsoperator.api.objects import Object

OURS: Final = tuple(
    value
    for name, value in vars(names).items()
    if name.startswith("CONDITION_") and value != names.CONDITION_PROXYGROUP_AVAILABLE
)
"""The types of the operator's conditions that say whether an object is served.

They are in the order of the names module, in which causes come before effects. If several conditions of an object are
false, the first of them says why the object isn't served, and the others follow from it. If all are true, the message
of the last one is used.
"""

_RANK: Final = {type_: rank for rank, type_ in enumerate(OURS)}
_PASSING: Final = ("Creating", "Pending", "Terminating")
"""The endings of reasons by which we recognize that a condition usually becomes true without anybody's help."""
_ALSO_PASSING: Final = (
    "ClusterResourcesNotReady",
    "IngressSvcNoBackendsConfigured",
    "KubeAPIServerProxyNoBackends",
    "NoProxiesConfigured",
    "NotAsked",
    "NotReadyToRouteTraffic",
)


class Grade(StrEnum):
    """The grade of an object: it is served, isn't served yet, or isn't served until somebody acts."""

    OK = "ok"
    WAITING = "waiting"
    FAILED = "failed"


class Judgement(NamedTuple):
    """The operator's judgement of one thing: its *grade*, the reason, and *words* and a *cure* for people.

    *since* is the time, in RFC 3339, at which the judgement became true; it is empty if that isn't known. The cure is
    empty if *words* say what to do.
    """

    grade: Grade
    reason: str = ""
    words: str = ""
    cure: str = ""
    since: str = ""


def ours(obj: Object) -> list[Object]:
    """Return the conditions of *obj* by which the operator says whether *obj* is served, causes before effects."""
    found = [each for each in conditions_of(obj) if each.get("type") in _RANK]
    return sorted(found, key=lambda each: _RANK[each["type"]]) if len(found) > 1 else found


def is_wrong(condition: Object) -> bool:
    """Tell whether a *condition* says that an object isn't served.

    If the ProxyGroup of an egress Service doesn't exist, the status of the condition is Unknown: the Service is neither
    valid nor invalid. It isn't served in that case, either.
    """
    status = condition.get("status")
    return bool(status == FALSE or (status != TRUE and condition["type"] == names.CONDITION_EGRESS_VALID))


def wrong_one(conditions: Iterable[Object]) -> Object | None:
    """Return the first of *conditions* that says that an object isn't served; None if no condition says so."""
    return next(filter(is_wrong, conditions), None)


def judge(condition: Object) -> Judgement:
    """Return the judgement of an object by one *condition* of the operator."""
    reason = condition.get("reason") or ""
    if condition.get("status") == TRUE:
        grade = Grade.OK
    elif not is_wrong(condition) or reason.endswith(_PASSING) or reason in _ALSO_PASSING:
        grade = Grade.WAITING
    else:
        grade = Grade.FAILED
    words = condition.get("message") or reason
    return Judgement(grade, reason, words, since=condition.get("lastTransitionTime") or "")


def judge_conditions(obj: Object) -> Judgement | None:
    """Return the judgement of *obj* by the operator's conditions in its status; None if it has none."""
    conditions = ours(obj)
    if not conditions:
        return None
    unknown = (each for each in conditions if each.get("status") != TRUE)
    return judge(wrong_one(conditions) or next(unknown, conditions[-1]))


def ingress_name(ingress: Object) -> str:
    """Return the name by which clients reach *ingress*, from its status; empty if its status has no name."""
    entries = ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return next((str(each["hostname"]) for each in entries if each.get("hostname")), "")


UNNAMED: Final = "it has no name in its status, so nobody reaches it"
"""The words for an Ingress that isn't served. We need them because Ingresses have no conditions with a message."""


def judge_ingress(ingress: Object) -> Judgement:
    """Return the judgement of *ingress*, an Ingress of the operator's class, by its status."""
    since = ingress["metadata"].get("creationTimestamp") or ""
    if name := ingress_name(ingress):
        return Judgement(Grade.OK, "", f"the tailnet reaches it at {name}", since=since)
    return Judgement(Grade.WAITING, "", UNNAMED, since=since)
