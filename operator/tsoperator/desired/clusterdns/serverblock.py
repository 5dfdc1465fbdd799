"""Puts our server block into a Corefile, between two comment lines, and takes it out again.

What is added can be removed exactly. The block is the end of the file when it is added. Where the file had no final
newline, the file with our block has none either, and the newline before our block is ours.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tsoperator.desired.clusterdns.corefile import Block, Corefile, CorefileError, Span, parse
from tsoperator.desired.clusterdns.results import Refusal, StubDomain

BEGIN: Final = "# BEGIN tailnet stub domain (the operator may rewrite these lines)"
END: Final = "# END tailnet stub domain"
_MARKERS: Final = ("# BEGIN tailnet stub domain", END)
DENIAL_SECONDS: Final = 1
"""How long CoreDNS may remember that a name doesn't exist. A name that was asked for before it was made is reachable
that much later. CoreDNS keeps answers for 5 s at least unless told so."""


class Listening(NamedTuple):
    """Where the cluster's DNS takes queries: ports as they are written, and the arguments of bind."""

    ports: Sequence[str] = ("53",)
    bind: Sequence[str] = ()


EVERYWHERE: Final = Listening()


class _Place(NamedTuple):
    """The characters of our block: from the first of BEGIN to the last of END."""

    start: int
    end: int


def server_block(stub: StubDomain, at: Listening = EVERYWHERE) -> str:
    """Return our server block with its markers, without a final newline."""
    suffixes = [f":{port}" if port else "" for port in at.ports]
    names = " ".join(zone + suffix for zone in stub.zones for suffix in suffixes)
    lines = [
        f"{names} {{",
        *([f"    bind {' '.join(at.bind)}"] if at.bind else []),
        "    errors",
        "    cache 30 {",
        f"        denial 9984 {DENIAL_SECONDS}",
        "    }",
        f"    forward . {' '.join(stub.addresses)}",
        "}",
    ]
    return "\n".join([BEGIN, *lines, END])


def listening(corefile: Corefile) -> Listening:
    """Return where queries for all names arrive: our block has to listen there, too."""
    root = [block for block in corefile.blocks if block.answers("", "{$ANY}")]
    ports = [each.port for block in root for each in block.addresses if each.may_be("", "{$ANY}")]
    bind = [arg for block in root for each in block.named("bind") for arg in each.args]
    return Listening([*dict.fromkeys(ports)] or ("53",), [*dict.fromkeys(bind)])


def with_block(text: str, stub: StubDomain, where: str, at: Listening | None = None) -> str | Refusal:
    """Return the Corefile *text*, which is *where* it is, with our block; *at* tells where to listen if not *text*."""
    corefile = _read(text, where)
    if isinstance(corefile, Refusal):
        return corefile
    place = _ours(corefile, text, where)
    if isinstance(place, Refusal):
        return place
    others = [block for block in corefile.blocks if place is None or not _within(block, place)]
    at = at or listening(Corefile(others, corefile.imports, ()))
    if taken := foreign(others, stub, at, where):
        return taken
    newline = "\r\n" if "\r\n" in text else "\n"
    if place is not None:
        newline = "\r\n" if text.startswith("\r\n", place.start + len(BEGIN)) else "\n"
    block = server_block(stub, at).replace("\n", newline)
    if place is not None:
        return text[: place.start] + block + text[place.end :]
    return text + block + newline if not text or text.endswith("\n") else text + newline + block


def without_block(text: str, where: str) -> str | Refusal:
    """Return the Corefile *text* as it would be if our block had never been added."""
    corefile = _read(text, where)
    if isinstance(corefile, Refusal):
        return corefile
    place = _ours(corefile, text, where)
    if place is None or isinstance(place, Refusal):
        return place or text
    newline = "\r\n" if text.startswith("\r\n", place.start + len(BEGIN)) else "\n"
    before, after = text[: place.start], text[place.end :]
    if after:
        return before + after.removeprefix(newline)
    return before.removesuffix(newline)


def foreign(blocks: Sequence[Block], stub: StubDomain, at: Listening, where: str) -> Refusal | None:
    """Return why a zone of *stub* is taken by somebody else's block among *blocks*, if it is."""
    for zone in stub.zones:
        for block in blocks:
            if any(block.answers(zone, port) for port in at.ports):
                message = (
                    f"{where} has a server block for {zone} already, in line {block.line}, which isn't the operator's: "
                    "remove that block, or set spec.clusterDNS.mode to Manual"
                )
                return Refusal("ForeignBlock", message)
    return None


def _read(text: str, where: str) -> Corefile | Refusal:
    try:
        return parse(text)
    except CorefileError as error:
        return Refusal("Unparsable", f"{where} can't be read, so it stays as it is: {error}")


def _ours(corefile: Corefile, text: str, where: str) -> _Place | Refusal | None:
    """Return the place of our block, if there is one; somebody may have damaged it."""
    marks = [comment for comment in corefile.comments if comment.text.startswith(_MARKERS)]
    if not marks:
        return None
    if [mark.text for mark in marks] == [BEGIN, END] and all(_alone(mark, text) for mark in marks):
        place = _Place(marks[0].start, marks[1].end)
        if sum(_within(block, place) for block in corefile.blocks) == 1:
            return place
    message = (
        f"somebody has changed the lines between {BEGIN!r} and {END!r} in {where} (line {marks[0].line}): "
        "remove these lines, those two included, and the operator writes them anew"
    )
    return Refusal("DamagedBlock", message)


def _alone(mark: Span, text: str) -> bool:
    """Tell whether a marker begins its line."""
    return not text[: mark.start] or text[mark.start - 1] == "\n"


def _within(block: Block, place: _Place) -> bool:
    return place.start <= block.start and block.end <= place.end
