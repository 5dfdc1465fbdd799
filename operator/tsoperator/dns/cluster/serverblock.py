"""Puts our server block into a Corefile, between two comment lines, and takes it out again.

A third comment line, after the first one, names the namespace of the operator that wrote the block, because a cluster
can have two operators. A block without that line is from an earlier version of an operator, and we treat it as ours. We
add our block at the end of the file, so that its removal restores exactly the earlier text. If the file had no final
newline, the file with our block has none either, and we remove the newline before our block together with the block.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from tsoperator.dns.cluster.corefile import (
    Address,
    Block,
    Corefile,
    CorefileError,
    Directive,
    Span,
    has_variable,
    parse,
)
from tsoperator.dns.cluster.results import StubDomain, covers
from tsoperator.runtime.plan import Refusal

BEGIN: Final = "# BEGIN tailnet stub domain (the operator rewrites these lines)"
END: Final = "# END tailnet stub domain"
_MARKERS: Final = ("# BEGIN tailnet stub domain", END)
_OWNER: Final = re.compile(r"# It belongs to the operator in namespace ([a-z0-9-]+)\.")
_DENIAL_SECONDS: Final = 1
"""The seconds for which CoreDNS is allowed to remember that a name doesn't exist; its default is 5.

If a client asks for a new name too early, it can't use the name until this time is over.
"""


_FORWARDING: Final = ("forward", "grpc")
_ANSWERING: Final = (*_FORWARDING, "auto", "etcd", "file", "hosts", "kubernetes", "secondary", "template")
"""The plugins that answer queries for the zones in their arguments.

Of the arguments of a plugin in _FORWARDING, only the first one is a zone.
"""


class Listening(NamedTuple):
    """The addresses at which the cluster's DNS takes queries: its ports, and the arguments of its plugin bind.

    A port is the empty text where the Corefile doesn't name one.
    """

    ports: tuple[str, ...] = ("53",)
    bind: tuple[str, ...] = ()


EVERYWHERE: Final = Listening()


class _Place(NamedTuple):
    """The position of an operator's lines in a Corefile: from the first character of `BEGIN` to the last one of `END`.

    *newline* ends each line. *owner* is the namespace of the operator; empty if no line names it.
    """

    start: int
    end: int
    newline: str
    owner: str


def marked_block(stub: StubDomain, at: Listening, owner: str) -> str:
    """Return our server block between its comment lines, as it is in a Corefile, without a final newline.

    *owner* is our namespace.
    """
    owned = f"# It belongs to the operator in namespace {owner}."
    return f"{BEGIN}\n{owned}\n{server_block(stub, at)}\n{END}"


def server_block(stub: StubDomain, at: Listening = EVERYWHERE) -> str:
    """Return our server block, which listens at *at*, for *stub*, without comment lines and without a final newline."""
    names = " ".join(f"{zone}:{port}" if port else zone for zone in stub.zones for port in at.ports)
    lines = [
        f"{names} {{",
        *([f"    bind {' '.join(at.bind)}"] if at.bind else []),
        "    errors",
        "    cache 30 {",
        f"        denial 9984 {_DENIAL_SECONDS}",
        "    }",
        f"    forward . {' '.join(stub.addresses)}",
        "}",
    ]
    return "\n".join(lines)


def listening(corefile: Corefile) -> Listening:
    """Return the ports and addresses at which CoreDNS takes the queries of Pods for all names.

    Our server block has to listen there, too. A server block listens at each of its ports on each address of its plugin
    bind. If several blocks are for all names, the main one is the first with port 53 or, if there is none, the first.
    The result has the ports of all such blocks with the same bind as the main block. If the main block has a bind, the
    result also has the addresses in the binds of all such blocks with the same ports as the main block.
    """
    roots = [
        Listening(ports, tuple(arg for each in block.named("bind") for arg in each.args))
        for block in corefile.blocks
        if (ports := tuple(each.port for each in block.addresses if each.scheme == "dns" and not each.zone))
    ]
    if not roots:
        return EVERYWHERE
    main = next((each for each in roots if not {"53", ""}.isdisjoint(each.ports)), roots[0])
    alike = [port for each in roots if {*each.bind} == {*main.bind} for port in each.ports]
    bind = [arg for each in roots if main.bind and {*each.ports} == {*main.ports} for arg in each.bind]
    return Listening(tuple(dict.fromkeys(alike)), tuple(dict.fromkeys(bind)))


def with_block(text: str, where: str, stub: StubDomain, at: Listening, owner: str) -> str | Refusal:
    """Return the Corefile *text* with our block for *stub*, or a refusal if *text* or our present block is damaged.

    *where* names the object and the key of *text*, for messages. *owner* is our namespace.
    """
    place = _ours(text, where, read_corefile(text, where), owner)
    if isinstance(place, Refusal):
        return place
    block = marked_block(stub, at, owner)
    if place is not None:
        return text[: place.start] + block.replace("\n", place.newline) + text[place.end :]
    newline = "\r\n" if "\r\n" in text else "\n"
    block = block.replace("\n", newline)
    return text + block + newline if not text or text.endswith("\n") else text + newline + block


def without_block(text: str, where: str, owner: str) -> str | Refusal:
    """Return the Corefile *text* without our block, or a refusal.

    A *text* without lines of ours stays as it is, even if it is invalid. If *text* has our lines, the function refuses
    an invalid *text* and damaged lines. *where* names the object and the key of *text*, for messages. *owner* is our
    namespace.
    """
    if not any(marker in text for marker in _MARKERS):
        return text  # a text without our block need not be readable
    place = _ours(text, where, read_corefile(text, where), owner)
    if place is None or isinstance(place, Refusal):
        return place or text
    before, after = text[: place.start], text[place.end :]
    return before + after.removeprefix(place.newline) if after else before.removesuffix(place.newline)


def corefile_refusal(text: str, where: str, stub: StubDomain, at: Listening, owner: str) -> Refusal | None:
    """Return a refusal if the Corefile *text* conflicts with our block for *stub*; None if it doesn't.

    It doesn't matter whether our block is in *text* or in another file. CoreDNS doesn't accept two blocks for the same
    zone and port. It accepts a block for a zone and another one for its parent zone. But if the block for the parent
    zone has a plugin that answers for our zone, our block would take the queries for our zone away from that plugin, so
    we refuse. We also refuse if *text* or our present block is damaged. Our block listens at *at*. *where* names the
    object and the key of *text*, for messages. *owner* is our namespace.
    """
    corefile = read_corefile(text, where)
    place = _ours(text, where, corefile, owner)
    if isinstance(corefile, Refusal):
        return corefile
    if isinstance(place, Refusal):
        return place
    ports = None if any(map(has_variable, at.ports)) else {port or "53" for port in at.ports}
    for block in corefile.blocks:
        if place is not None and _within(block, place):
            continue
        for zone in stub.zones:
            if any(address.may_be(zone, ports) for address in block.addresses):
                others = (each.owner for each in _places(text, corefile) or () if _within(block, each))
                whose = (
                    f"it is that of the operator in namespace {other}: remove it if that operator is gone"
                    if (other := next(others, ""))
                    else "it isn't the operator's: remove it"
                )
                message = (
                    f"line {block.line} of {where}, begins a server block that answers for {zone}, or may because of a "
                    f"variable, and {whose}, or set spec.clusterDNS.mode to Manual"
                )
                return Refusal(message, "ZoneTaken")
        origins = [each.zone for each in block.addresses if each.scheme == "dns"]
        below = [zone for zone in stub.zones if any(covers(origin, zone) for origin in origins)]
        if taken := plugin_refusal(block.directives, where, below):
            return taken
    return None


def plugin_refusal(plugins: Iterable[Directive], where: str, zones: Collection[str]) -> Refusal | None:
    """Return a refusal if one of *plugins* answers for one of *zones*, or for a zone inside of it; None if none does.

    *plugins* are those of a server block for a parent zone of *zones*. CoreDNS uses only the block with the longest
    zone. So a block of ours for *zones* would take the queries away from that plugin. *where* names the file with
    *plugins*, for messages.
    """
    for plugin in plugins:
        if plugin.name in _ANSWERING:
            args = plugin.args[:1] if plugin.name in _FORWARDING else plugin.args
            alike = (Address.parse(arg).zone for arg in args if any(zone in arg.lower() for zone in zones))
            if taken := next((own for own in alike if any(covers(zone, own) for zone in zones)), None):
                message = (
                    f"line {plugin.line} of {where}, has plugin {plugin.name} for {taken}, which a server block of the "
                    "operator would end: remove it, or set spec.clusterDNS.mode to Manual"
                )
                return Refusal(message, "ZoneTaken")
    return None


def read_corefile(text: str, where: str) -> Corefile | Refusal:
    """Return the contents of the Corefile *text*, or a refusal that says why *text* in *where* can't be read."""
    try:
        return parse(text)
    except CorefileError as error:
        return Refusal(f"{where} can't be read, so it stays as it is: {error}", "CorefileUnreadable")


def _ours(text: str, where: str, corefile: Corefile | Refusal, owner: str) -> _Place | Refusal | None:
    """Return the position of our lines in *text*; None if there are none.

    *corefile* is *text*, parsed, or the refusal that says why it can't be read; this refusal is returned unchanged.
    Return another refusal if somebody has damaged our lines. *where* names the file, for messages. *owner* is our
    namespace.
    """
    if isinstance(corefile, Refusal):
        return corefile
    places = _places(text, corefile)
    ours = [each for each in places or () if each.owner in ("", owner)]
    if places is not None and not ours:
        return None
    if len(ours) == 1 and sum(_within(block, ours[0]) for block in corefile.blocks) == 1:
        return ours[0]
    line = text.count("\n", 0, ours[0].start) + 1 if ours else _marks(corefile)[0].line
    message = (
        f"somebody has changed the lines that the operator wrote into {where}, at line {line}: remove them "
        f"all, from {BEGIN!r} to {END!r}, and the operator writes them anew"
    )
    return Refusal(message, "BlockDamaged")


def _places(text: str, corefile: Corefile) -> list[_Place] | None:
    """Return the positions of the lines of all operators in *text*, which is parsed as *corefile*.

    Return None if somebody has damaged any of these lines.
    """
    marks = _marks(corefile)
    if [mark.text for mark in marks] != [BEGIN, END] * (len(marks) // 2):
        return None
    if not all(_begins_line(mark, text) for mark in marks):
        return None
    lines = {comment.line: comment.text for comment in corefile.comments}
    places = []
    for first, last in zip(marks[::2], marks[1::2], strict=True):
        newline = "\r\n" if text.startswith("\r\n", first.end) else "\n"
        owned = _OWNER.fullmatch(lines.get(first.line + 1, ""))
        places.append(_Place(first.start, last.end, newline, owned[1] if owned else ""))
    return places


def _marks(corefile: Corefile) -> list[Span]:
    return [comment for comment in corefile.comments if comment.text.startswith(_MARKERS)]


def _begins_line(mark: Span, text: str) -> bool:
    return mark.start == 0 or text[mark.start - 1] == "\n"


def _within(block: Block, place: _Place) -> bool:
    return place.start < block.start and block.end < place.end
