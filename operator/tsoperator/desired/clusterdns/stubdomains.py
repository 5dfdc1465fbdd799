"""Puts our zones into kube-dns's stub domains, a JSON object in a ConfigMap, and takes them out again.

JSON has no comments, so an annotation on the ConfigMap says which entries are ours. Ours are written before all others,
and nothing else in the text changes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from tsoperator.desired.clusterdns.results import Refusal, StubDomain

ANNOTATION: Final = "tailscale.com/stub-domains"
"""On ConfigMap kube-dns: the operator's entries, and whether it made the key, as JSON."""
_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class Edited(NamedTuple):
    """What the ConfigMap has to have: the text of the key, and the annotation. None takes either of them away."""

    text: str | None
    annotation: str | None


@dataclass(frozen=True, slots=True)
class _Ours:
    """Our entries, and whether the key wasn't there before them."""

    zones: Mapping[str, Sequence[str]] = field(default_factory=dict)
    made: bool = False

    @classmethod
    def parse(cls, annotation: str | None) -> "_Ours":
        """Return what *annotation* says; without a readable one nothing is ours."""
        try:
            found = json.loads(annotation or "{}")
            return cls({zone: [*to] for zone, to in found["zones"].items()}, found["made"] is True)
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            return cls()

    def has(self, member: "_Member") -> bool:
        """Tell whether *member* is one of our entries, as we wrote it."""
        return member.key in self.zones and self.zones[member.key] == member.value

    def annotation(self) -> str:
        """Return the annotation that says this."""
        return json.dumps({"zones": self.zones, "made": self.made})


class _Member(NamedTuple):
    """An entry of a JSON object, and where it is in the text."""

    key: str
    value: Any
    start: int
    end: int


def with_zones(text: str | None, annotation: str | None, where: str, stub: StubDomain) -> Edited | Refusal:
    """Return the stub domains *text*, which is None if the key isn't there, with entries for *stub* and no others."""
    before = without_zones(text, annotation, where)
    if isinstance(before, Refusal):
        return before
    plain = "{}" if before.text is None else before.text
    try:
        members = _members(plain)
    except (ValueError, RecursionError) as error:
        return _unreadable(where, error)
    if wrong := next((each.key for each in members if not _is_servers(each.value)), None):
        message = f"{where}: the value of {wrong!r} isn't a list of addresses, so kube-dns takes no entry; correct it"
        return Refusal("StubDomainsUnreadable", message)
    if taken := next((each.key for each in members if each.key.lower().removesuffix(".") in stub.zones), None):
        message = (
            f"{where} has an entry for {taken}, and it isn't the operator's: remove that entry, or set "
            "spec.clusterDNS.mode to Manual"
        )
        return Refusal("ZoneTaken", message)
    zones = {zone: [*stub.addresses] for zone in stub.zones}
    ours = json.dumps(zones)[1:-1] + (", " if members else "")
    at = members[0].start if members else plain.index("{") + 1
    return Edited(plain[:at] + ours + plain[at:], _Ours(zones, made=before.text is None).annotation())


def without_zones(text: str | None, annotation: str | None, where: str) -> Edited | Refusal:
    """Return the stub domains *text* without our entries; those that somebody has changed aren't ours any more."""
    ours = _Ours.parse(annotation)
    if text is None or not ours.zones:
        return Edited(text, None)
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
    return Edited(None if gone else text, None)


def _unreadable(where: str, error: Exception) -> Refusal:
    message = f"{where} isn't a JSON object, so it stays as it is: {error}; correct it"
    return Refusal("StubDomainsUnreadable", message)


def _is_servers(value: Any) -> bool:
    """Tell whether kube-dns takes *value* for a list of servers."""
    return value is None or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _members(text: str) -> list[_Member]:
    """Return the entries of the JSON object *text*; raises ValueError, or RecursionError."""
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
    """Return where the text goes on after *mark*, which has to come next, and after white space."""
    at = _space(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"{mark} is missing at character {at + 1}")
    return _space(text, at + 1)


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
