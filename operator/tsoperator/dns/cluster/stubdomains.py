"""Puts our zones into kube-dns's stub domains, and takes them out again. The stub domains are JSON in a ConfigMap.

JSON has no comments, so an annotation on the ConfigMap says which zones are ours. We write our zones before all other
zones, and change nothing else in the text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from tsoperator.dns.cluster.results import StubDomain
from tsoperator.runtime.plan import Refusal

ANNOTATION: Final = "tailscale.com/stub-domains"
"""The annotation of ConfigMap kube-dns that says which stub domains the operators have written.

It is a JSON object. For the namespace of each operator, it has the stub domains of that operator, and whether the
operator has made the key ``stubDomains``. An earlier version wrote an annotation without a namespace. We treat that one
as ours.
"""
_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class Edited(NamedTuple):
    """The wanted contents of ConfigMap kube-dns: the *text* of its stub domains, and the *annotation*.

    If the text or the annotation is None, the operator removes it from the ConfigMap.
    """

    text: str | None
    annotation: str | None


@dataclass(frozen=True, slots=True)
class _Ours:
    """The facts in the annotation of ConfigMap kube-dns.

    *zones* are our stub domains with their servers. *made* tells whether we made the key ``stubDomains`` for them.
    *others* are the facts about other operators.
    """

    zones: Mapping[str, Sequence[str]] = field(default_factory=dict)
    made: bool = False
    others: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def parse(cls, annotation: str | None, owner: str) -> "_Ours":
        """Return the facts in *annotation*; no facts if it can't be read. *owner* is our namespace."""
        try:
            found = json.loads(annotation or "{}")
            is_earlier = isinstance(found.get("made"), bool)
            others = {
                each: said for each, said in found.items() if not is_earlier and each != owner and "zones" in said
            }
        except (ValueError, RecursionError, TypeError, AttributeError):
            return cls()
        try:
            ours = found if is_earlier else found[owner]
            return cls({zone: [*to] for zone, to in ours["zones"].items()}, ours["made"] is True, others)
        except (LookupError, TypeError, AttributeError):
            return cls(others=others)

    def has(self, member: "_Member") -> bool:
        """Tell whether *member* is a stub domain that we wrote, and that nobody has changed since."""
        return member.key in self.zones and self.zones[member.key] == member.value

    def annotation(self, owner: str) -> str | None:
        """Return the annotation with these facts; None if no operator has a stub domain. *owner* is our namespace."""
        ours = {owner: {"zones": self.zones, "made": self.made}} if self.zones else {}
        return json.dumps({**self.others, **ours}) if self.others or ours else None


class _Member(NamedTuple):
    """A key of a JSON object with its value, and the position of both in the text."""

    key: str
    value: Any
    start: int
    end: int


def with_zones(text: str | None, annotation: str | None, where: str, stub: StubDomain, owner: str) -> Edited | Refusal:
    """Return the stub domains *text* with those of *stub* in place of all that we wrote before, or a refusal.

    *text* and *annotation* are None if the ConfigMap doesn't have them. *where* names the object and the key, for
    messages. *owner* is our namespace.
    """
    before = without_zones(text, annotation, where, owner)
    if isinstance(before, Refusal):
        return before
    plain = "{}" if before.text is None else before.text
    try:
        members = _members(plain)
    except (ValueError, RecursionError) as error:
        return _unreadable(where, error)
    if wrong := next((each.key for each in members if not _is_servers(each.value)), None):
        message = f"{where}: the value of {wrong!r} isn't a list of addresses, so kube-dns takes no entry; correct it"
        return Refusal(message, "StubDomainsUnreadable")
    if taken := next((each.key for each in members if each.key.lower().removesuffix(".") in stub.zones), None):
        message = (
            f"{where} has an entry for {taken}, and it isn't the operator's: remove that entry, or set "
            "spec.clusterDNS.mode to Manual"
        )
        return Refusal(message, "ZoneTaken")
    zones = {zone: [*stub.addresses] for zone in stub.zones}
    ours = json.dumps(zones)[1:-1] + (", " if members else "")
    at = members[0].start if members else plain.index("{") + 1
    others = _Ours.parse(annotation, owner).others
    return Edited(plain[:at] + ours + plain[at:], _Ours(zones, before.text is None, others).annotation(owner))


def without_zones(text: str | None, annotation: str | None, where: str, owner: str) -> Edited | Refusal:
    """Return the stub domains *text* without those that we wrote, or a refusal if *text* is no JSON object.

    If somebody has changed a stub domain since we wrote it, it isn't ours any more, so it stays. If *annotation* names
    no stub domain of ours, *text* stays as it is, even if it is no JSON. *owner* is our namespace.
    """
    ours = _Ours.parse(annotation, owner)
    left = _Ours(others=ours.others).annotation(owner)
    if not ours.zones:
        return Edited(text, annotation if ours.others else None)
    if text is None:
        return Edited(None, left)
    try:
        members = _members(text)
    except (ValueError, RecursionError) as error:
        return _unreadable(where, error)
    runs = [(is_ours, [*run]) for is_ours, run in groupby(members, ours.has)]
    for number in reversed(range(len(runs))):
        is_ours, run = runs[number]
        if is_ours:
            start, end = run[0].start, run[-1].end
            if number + 1 < len(runs):
                end = runs[number + 1][1][0].start
            elif number:
                start = runs[number - 1][1][-1].end
            text = text[:start] + text[end:]
    gone = ours.made and all(is_ours for is_ours, _ in runs)
    return Edited(None if gone else text, left)


def _unreadable(where: str, error: Exception) -> Refusal:
    message = f"{where} isn't a JSON object, so it stays as it is: {error}; correct it"
    return Refusal(message, "StubDomainsUnreadable")


def _is_servers(value: Any) -> bool:
    """Tell whether kube-dns accepts *value* as the list of a stub domain's servers."""
    return value is None or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _members(text: str) -> list[_Member]:
    """Return the keys of the JSON object *text* with their values; raises ValueError, or RecursionError."""
    members: list[_Member] = []
    at = _after(text, 0, "{")
    while text[at : at + 1] != "}" or members:
        start = at
        key, at = _DECODER.raw_decode(text, at)
        if not isinstance(key, str):
            raise ValueError(f"a name in quotes is missing at character {start + 1}")
        value, end = _DECODER.raw_decode(text, _after(text, at, ":"))
        members.append(_Member(key, value, start, end))
        at = _space(text, end)
        if text[at : at + 1] == "}":
            break
        at = _after(text, at, ",")
    rest = _space(text, at + 1)
    if rest != len(text):
        raise ValueError(f"there is more behind its end, at character {rest + 1}")
    return members


def _after(text: str, at: int, mark: str) -> int:
    """Return the position after *mark*, and after the white space that follows *mark*.

    In *text*, *mark* has to be the next thing at the position *at* or after white space there.
    """
    at = _space(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"{mark} is missing at character {at + 1}")
    return _space(text, at + 1)


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
