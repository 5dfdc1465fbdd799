"""Reads the command line of dnsload into `Settings`."""

import argparse
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, NoReturn

import dns.edns
import numpy as np
from tsnameserver import __version__

from dnsload.errors import InputError
from dnsload.schedule import Segment
from dnsload.targets import Target, parse_target
from dnsload.workload import Mix, QueryForm

MAX_RATE = 1_000_000
MAX_SECONDS = 24 * 3600.0
_MAX_STEPS = 100
_MAX_CONNECTIONS = 500
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_DEFAULT_RATE = 1000.0
_EDNS_SIZE = 1232
"""The UDP payload size, in bytes, that queries offer if an option other than the size needs EDNS."""
_COOKIE_BYTES = 8
_COOKIE_SIZES = (_COOKIE_BYTES, *range(16, 41))
"""The permitted sizes of a cookie in bytes: only a client cookie, or one with a server cookie (RFC 7873)."""

DESCRIPTION = """\
Load a DNS server with queries, check every answer, and report latency, loss and mistakes.

At a rate, a query's latency counts from when it was meant to be sent, so a stall shows in every query that it delayed.
With --concurrency it counts from when the query was sent: there a stall shows only in the queries that were waiting.
A query without an answer counts with the time-out."""

EXAMPLES = """\
examples:
  5,000 queries a second for a minute, answers checked against the records:
    dnsload --target 127.0.0.1:5353 --records records.json --rate 5000 --duration 1m

  find the rate at which it breaks, with a report to look at:
    dnsload --target 192.0.2.53 --records records.json --steps 1000,5000,10000,20000 --html report.html
    dnsload --target 192.0.2.53 --records records.json --rate 1000..40000 --duration 2m

  as fast as it goes with 100 queries outstanding; with four clients; by TCP; by TCP with a connection a query:
    dnsload --target 192.0.2.53 --records records.json --concurrency 100
    dnsload --target 192.0.2.53 --records records.json --concurrency 1000 --workers 4
    dnsload --target 192.0.2.53 --records records.json --concurrency 100 --tcp --connections 8
    dnsload --target 192.0.2.53 --records records.json --concurrency 100 --tcp --new-connections

  asking again by TCP for answers that are truncated:
    dnsload --target 192.0.2.53 --records records.json --rate 1000 --tcp-retry

  one in ten for a name that doesn't exist, one in a hundred malformed, A and AAAA, EDNS:
    dnsload --target 192.0.2.53 --records records.json --miss 0.1 --malformed 0.01 --types A,AAAA --edns 1232

  from a Pod, through the cluster's own DNS, for eight hours:
    dnsload --target cluster --resolver --records /records/records.json --rate 500 --soak --duration 8h

  each name of a file, in its order, ten times:
    dnsload --target 192.0.2.53 --names names.txt --passes 10 --concurrency 100

  without records only questions and rcodes are checked:
    dnsload --target 192.0.2.53 --name db.tail1234.ts.net --name printer.tail1234.ts.net

exit codes: 0 all is well; 1 wrong answers, or more lost than --max-loss; 2 it can't be run as asked;
  3 nothing was wrong, but dnsload was the limit: the figures may be its own, not the server's"""


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a run: the segments of an open loop, or the concurrency of a closed loop."""

    segments: tuple[Segment, ...]
    concurrency: int | None
    seconds: float
    step_seconds: int | None
    """The length of each step in seconds, or None if there are no steps."""
    queries: int | None = None
    """The number of queries after which a closed loop ends early, or None if only time ends it."""

    @property
    def fastest(self) -> float:
        """The highest rate of the schedule. It is infinite in a closed loop."""
        if self.concurrency is not None:
            return float("inf")
        return max(max(segment.first, segment.last) for segment in self.segments)

    def __str__(self) -> str:
        if self.concurrency is not None:
            return f"closed loop, {self.concurrency:,} outstanding"
        if self.step_seconds is not None:
            rates = ", ".join(f"{segment.first:,g}" for segment in self.segments)
            return f"steps of {rates} queries/s, {self.step_seconds} s each"
        only = self.segments[0]
        if only.first == only.last:
            return f"{only.first:,g} queries/s"
        return f"{only.first:,g} to {only.last:,g} queries/s"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run, from the command line."""

    targets: tuple[Target, ...]
    records: tuple[Path, ...]
    names_file: Path | None
    names: tuple[str, ...]
    types: tuple[str, ...]
    form: QueryForm
    mix: Mix
    speed: Speed
    tcp: bool
    sockets: int
    """The number of UDP sockets or TCP connections for each target."""
    new_connections: bool
    """True if each query has its own TCP connection."""
    retry: bool
    """True if a query is repeated by TCP after a truncated answer."""
    engine: str
    workers: int
    source: str
    """The address from which the queries are sent. With "", the system chooses it."""
    passes: int | None
    """The number of times to ask each question, in order.

    With None, questions are chosen at random for the whole duration.
    """
    timeout: float
    """Seconds after which a query without an answer is lost."""
    soak: bool
    max_loss: float
    json: Path | None
    html: Path | None
    quiet: bool


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises InputError, whose text is one line, for wrong arguments."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message.removeprefix("argument "))


def read_settings(arguments: Sequence[str]) -> Settings:
    """Return the settings on a command line; raises InputError. `--help` prints the help and ends the program."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not (options.records or options.names or options.name):
        raise InputError("what to ask? name records (--records), a file of names (--names), or names (--name)")
    targets = tuple(parse_target(text) for text in options.target)
    if options.source and any((":" in target.host) != (":" in options.source) for target in targets):
        raise InputError("--source and --target are not of the same IP version")
    if options.passes is not None:
        _check_passes(options)
    if options.miss + options.malformed > 1:
        raise InputError("--miss and --malformed are more than all queries together")
    if options.new_connections and not options.tcp:
        raise InputError("--new-connections goes with --tcp")
    if options.tcp_retry and options.tcp:
        raise InputError("--tcp-retry is for UDP: leave it out with --tcp")
    if options.workers > 1 and options.engine == "asyncio":
        raise InputError("--workers is for the compiled engine: leave it out with --engine asyncio")
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    return Settings(
        targets=targets,
        records=tuple(options.records),
        names_file=options.names,
        names=tuple(options.name),
        types=options.types,
        form=_form(options, seed),
        mix=Mix(options.miss, options.malformed, seed, in_order=options.passes is not None),
        speed=_speed(options),
        tcp=options.tcp,
        sockets=options.connections if options.tcp else options.sockets,
        new_connections=options.new_connections,
        retry=options.tcp_retry,
        engine=options.engine,
        workers=options.workers,
        source=options.source or "",
        passes=options.passes,
        timeout=options.timeout,
        soak=options.soak,
        max_loss=options.max_loss,
        json=options.json,
        html=options.html,
        quiet=options.quiet,
    )


def _check_passes(options: argparse.Namespace) -> None:
    """Raise InputError if --passes, which asks all questions in order, is combined with an option that doesn't fit."""
    ramp = options.rate is not None and options.rate[0] != options.rate[1]
    conflicts = {
        "--steps": options.steps,
        "a ramp": ramp,
        "--soak": options.soak,
        "--miss": options.miss,
        "--malformed": options.malformed,
        "--workers": options.workers > 1,
        "a second --target": len(options.target) > 1,
    }
    for option, given in conflicts.items():
        if given:
            raise InputError(f"--passes asks each question in its turn: leave {option} out")


def _form(options: argparse.Namespace, seed: int) -> QueryForm:
    edns_options = [*options.client_subnet]
    if options.nsid:
        edns_options.append(dns.edns.NSIDOption(b""))
    if options.cookie is not None:
        client = options.cookie or np.random.default_rng(seed).bytes(_COOKIE_BYTES)
        edns_options.append(dns.edns.GenericOption(dns.edns.OptionType.COOKIE, client))
    edns = options.edns
    if edns is None and (options.dnssec_ok or edns_options):
        edns = _EDNS_SIZE
    return QueryForm(edns, options.dnssec_ok, options.resolver, tuple(edns_options))


def _speed(options: argparse.Namespace) -> Speed:
    given = [name for name in ("rate", "steps", "concurrency") if getattr(options, name) is not None]
    if len(given) > 1:
        raise InputError(f"--{given[0]} and --{given[1]} exclude each other")
    if options.step_seconds is not None and not options.steps:
        raise InputError("--step-seconds goes with --steps")
    if options.soak and (options.steps or (options.rate and options.rate[0] != options.rate[1])):
        raise InputError("--soak wants a constant rate (--rate 1000)")
    if options.steps:
        if options.duration is not None:
            raise InputError("--steps take --step-seconds each: leave --duration out")
        length = options.step_seconds or 30
        segments = tuple(Segment(length, rate, rate) for rate in options.steps)
        return Speed(segments, None, _at_most_a_day(length * len(segments)), length)
    default = MAX_SECONDS if options.passes else 3600.0 if options.soak else 10.0
    seconds = options.duration or default
    if options.concurrency is not None:
        return Speed((), options.concurrency, seconds, None)
    first, last = options.rate or (_DEFAULT_RATE, _DEFAULT_RATE)
    return Speed((Segment(seconds, first, last),), None, seconds, None)


def _at_most_a_day(seconds: float) -> float:
    if seconds > MAX_SECONDS:
        raise InputError("a run takes at most 24 hours")
    return seconds


def _checked(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Wrap *parse* so that argparse shows the text of its ValueError to the user."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {what}") from None
    if not 0 <= number < float("inf"):
        raise ValueError(f"{text!r} is not {what}")
    return number


def _cookie(text: str) -> bytes:
    try:
        cookie = bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{text!r} is not hexadecimal") from None
    if len(cookie) not in _COOKIE_SIZES:
        raise ValueError(f"{text!r} is not a cookie: of a client 16 digits, with that of a server 32 to 80")
    return cookie


def _client_subnet(text: str) -> "dns.edns.ECSOption":
    try:
        network = ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a subnet such as 192.0.2.0/24: {error}") from None
    return dns.edns.ECSOption(str(network.network_address), network.prefixlen)


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address") from None


def parse_duration(text: str) -> float:
    """Return the seconds in *text*, which can have a unit: `90`, `90s`, `1.5m`, `24h`; raises ValueError."""
    number, unit = re.fullmatch(r"(.*?)([smh]?)", text, re.DOTALL).groups()  # type: ignore[union-attr]  # the pattern matches any text
    seconds = _number(number, "a duration such as 90, 90s, 10m or 24h") * _UNITS[unit]
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError("a run takes more than 0 seconds and at most 24 hours")
    return seconds


def _rate(text: str) -> float:
    rate = _number(text, "a number of queries a second")
    if not 0 < rate <= MAX_RATE:
        raise ValueError(f"{text} queries a second is not more than 0 and at most 1,000,000")
    return rate


def parse_rates(text: str) -> tuple[float, float]:
    """Return the first and the last rate in *text*, which is `RATE` or `FROM..TO`; raises ValueError."""
    first, dots, last = text.partition("..")
    return _rate(first), _rate(last if dots else first)


def _steps(text: str) -> list[float]:
    rates = [_rate(each) for each in text.split(",")]
    if len(rates) > _MAX_STEPS:
        raise ValueError(f"more than {_MAX_STEPS} steps")
    return rates


def _share(text: str) -> float:
    share = _number(text, "a share from 0 to 1")
    if share > 1:
        raise ValueError(f"{text} is not a share from 0 to 1")
    return share


def _whole(least: int, most: int) -> Callable[[str], Any]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is not a whole number from {least:,} to {most:,}")
        return int(text)

    return _checked(parse)


def _types(text: str) -> tuple[str, ...]:
    types = tuple(each.strip().upper() for each in text.split(",") if each.strip())
    if not types:
        raise ValueError("no type is named")
    return types


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dnsload",
        usage="dnsload --target ADDR:PORT --records FILE [--rate RATE] [--duration TIME] [options]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_what(parser)
    _add_how_fast(parser)
    _add_transport(parser)
    parser.add_argument("--version", action="version", version=f"dnsload {__version__}")
    report = parser.add_argument_group("the report")
    report.add_argument("--json", type=Path, metavar="FILE", help="write it as JSON too")
    report.add_argument("--html", type=Path, metavar="FILE", help="write it as one HTML page with plots too")
    report.add_argument(
        "--max-loss",
        type=_checked(_share),
        default=0.001,
        metavar="SHARE",
        help="a larger share of lost queries is exit code 1 (default 0.001)",
    )
    report.add_argument("--quiet", action="store_true", help="no line a second on stderr")
    return parser


def _add_what(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to ask, and whom")
    add = what.add_argument
    add(
        "--target",
        action="append",
        required=True,
        metavar="ADDR[:PORT]",
        help="the server, or `cluster` (the first nameserver of /etc/resolv.conf); repeat it to ask several in turn",
    )
    add(
        "--records",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="records.json: its names are asked and the answers checked; of shards repeat it, or give their folder",
    )
    add("--names", type=Path, metavar="FILE", help="ask these instead: lines of a name and perhaps a type")
    add("--name", action="append", default=[], metavar="NAME", help="ask this name; may be repeated")
    add("--types", type=_checked(_types), default=("A",), metavar="A,AAAA", help="types to ask for (default A)")
    add("--miss", type=_checked(_share), default=0.0, metavar="SHARE", help="share of names that don't exist")
    add("--malformed", type=_checked(_share), default=0.0, metavar="SHARE", help="share of damaged packets")
    add("--edns", type=_whole(0, 65535), metavar="BYTES", help="send EDNS, offering this UDP size")
    add("--dnssec-ok", action="store_true", help="set DO (with --edns 1232 unless that says otherwise)")
    add("--nsid", action="store_true", help="ask by EDNS for the name of the server (NSID)")
    add(
        "--cookie",
        nargs="?",
        const=b"",
        type=_checked(_cookie),
        metavar="HEX",
        help="send an EDNS cookie: this one, or one that the seed chooses",
    )
    add(
        "--client-subnet",
        action="append",
        default=[],
        type=_checked(_client_subnet),
        metavar="SUBNET",
        help="send an EDNS client subnet, such as 192.0.2.0/24",
    )
    add("--resolver", action="store_true", help="the target is a resolver: set RD, and don't ask for AA in answers")
    add("--seed", type=_whole(0, 2**32 - 1), metavar="N", help="choose the same names and damage again")


def _add_how_fast(parser: argparse.ArgumentParser) -> None:
    fast = parser.add_argument_group("how fast, how long")
    add = fast.add_argument
    add(
        "--rate",
        type=_checked(parse_rates),
        metavar="RATE|FROM..TO",
        help="queries a second, whatever the answers do; or a ramp over the duration (default 1000)",
    )
    add("--steps", type=_checked(_steps), metavar="R1,R2,…", help="rates, one after the other")
    add("--step-seconds", type=_whole(1, 86400), metavar="N", help="how long each takes (default 30)")
    add(
        "--concurrency",
        type=_whole(1, 100_000),
        metavar="N",
        help="instead: keep N queries outstanding, as fast as answers come",
    )
    add(
        "--duration",
        type=_checked(parse_duration),
        metavar="TIME",
        help="90, 90s, 10m, at most 24h (default 10s; 1h with --soak)",
    )
    add(
        "-n",
        "--passes",
        type=_whole(1, 1_000_000),
        metavar="N",
        help="ask each question in its turn, N times, and end; --duration ends it earlier",
    )
    add("--soak", action="store_true", help="a long run: windows of 10 s, the first compared with the last")
    add(
        "--timeout",
        type=_checked(parse_duration),
        default=2.0,
        metavar="TIME",
        help="after it a query is lost (default 2s)",
    )


def _add_transport(parser: argparse.ArgumentParser) -> None:
    transport = parser.add_argument_group("transport")
    add = transport.add_argument
    add(
        "--source",
        type=_checked(_address),
        metavar="ADDR",
        help="send from this address of the machine",
    )
    add("--tcp", action="store_true", help="ask by TCP: connections are reused, queries pipelined")
    add("--new-connections", action="store_true", help="with --tcp: open a new connection for each query")
    add("--tcp-retry", action="store_true", help="if a UDP answer is truncated (TC), ask again by TCP")
    add(
        "--connections",
        type=_whole(1, _MAX_CONNECTIONS),
        default=4,
        metavar="N",
        help="TCP connections for each target (default 4)",
    )
    add("--sockets", type=_whole(1, 64), default=4, metavar="N", help="UDP sockets for each target (default 4)")
    add(
        "--engine",
        choices=("auto", "asyncio", "compiled"),
        default="auto",
        help="compiled is a client in C, and needs a C compiler; auto takes it, if there is one, above 3,000 queries/s"
        " and for --concurrency",
    )
    add(
        "--workers",
        type=_whole(1, 64),
        default=1,
        metavar="N",
        help="compiled clients, with a core each (default 1)",
    )
