"""Flags and environment variables, turned into frozen Settings."""

import argparse
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from tsnameserver import __version__
from tsnameserver.compiled import COMPILED
from tsnameserver.configmaps import SERVICE_ACCOUNT, ApiSettings
from tsnameserver.errors import InvalidNameError, SettingsError
from tsnameserver.names import fold, wire_name
from tsnameserver.sockets import Endpoint, parse_endpoint
from tsnameserver.zone import ZoneSettings

_PREFIX = "TSNAMESERVER_"
_MAX_TTL = 2**31 - 1
_MAX_NSID = 200
"""The greatest length of the identifier of this nameserver (RFC 5001), in bytes.

A response with it and with the longest name fits into the 512 bytes that every client takes.
"""
_ALIKE = 0.85  # a name that is so similar to a variable's (1.0 is equal) counts as misspelt
_SHARE = re.compile(r"1/[1-9][0-9]{0,8}")
_LEVELS = ("debug", "info", "warning", "error")
_FORMATS = ("text", "json")
_LOOP = "compiled UDP loop" if COMPILED else "UDP loop in Python: the compiled one was not built"
_LOOPS = ("auto", "python")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the server, which don't change while it runs."""

    records: Path
    snapshot: Path | None
    listen: tuple[Endpoint, ...]
    zone: ZoneSettings
    health: Endpoint | None
    metrics: Endpoint | None
    api: ApiSettings | None
    drain: float
    """The seconds for which the server still answers after the signal to stop."""
    log_level: int
    log_format: Literal["text", "json"]
    udp_loop: Literal["auto", "python"] = "auto"
    log_queries: int = 0
    """About one in so many queries is logged; 0 logs none."""


class _Option(NamedTuple):
    flag: str
    default: str | None
    parse: Callable[[str], Any]
    metavar: str
    help: str
    repeatable: bool = False

    @property
    def name(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        return f"{_PREFIX}{self.name.upper()}"


def _many(parse: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def parse_all(text: str) -> tuple[Any, ...]:
        parsed = tuple(dict.fromkeys(parse(part) for part in text.replace(",", " ").split()))
        if not parsed:
            raise ValueError("is empty")
        return parsed

    return parse_all


def _path(text: str) -> Path:
    if not Path(text).name:
        raise ValueError("is no path of a file")
    return Path(text)


def _optional_path(text: str) -> Path | None:
    return _path(text) if text else None


def _origin(text: str) -> str:
    wire_name(text)
    wire_name(f"hostmaster.{fold(text)}")  # the zone's RNAME
    return text


def _name(text: str) -> str:
    wire_name(text)
    return text


def _nsid(text: str) -> str:
    if len(text.encode()) > _MAX_NSID:
        raise ValueError(f"has more than {_MAX_NSID} bytes")
    return text


def _ttl(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_TTL:
        raise ValueError(f"is not a whole number of seconds from 0 to {_MAX_TTL}")
    return int(text)


def _seconds(text: str) -> float:
    if not text.isascii() or not text.isdigit():
        raise ValueError("is not a whole number of seconds")
    return float(text)


def _optional_endpoint(text: str) -> Endpoint | None:
    return parse_endpoint(text) if text else None


def _server(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise ValueError("is not an http:// or https:// URL")
    return text


def _format(text: str) -> str:
    if text not in _FORMATS:
        raise ValueError(f"is not one of {', '.join(_FORMATS)}")
    return text


def _loop(text: str) -> str:
    if text not in _LOOPS:
        raise ValueError(f"is not one of {', '.join(_LOOPS)}")
    return text


def _share(text: str) -> int:
    if text and not _SHARE.fullmatch(text):
        raise ValueError("is not 1/1, 1/2 and so on, up to 1/999999999")
    return int(text.removeprefix("1/") or 0)


def _level(text: str) -> int:
    if text not in _LEVELS:
        raise ValueError(f"is not one of {', '.join(_LEVELS)}")
    return logging.getLevelNamesMapping()[text.upper()]


_OPTIONS = (
    _Option(
        "--records",
        "/config/records.json",
        _path,
        "PATH",
        "the file with records; ignored once the API server has given some",
    ),
    _Option(
        "--snapshot",
        "",
        _optional_path,
        "PATH",
        "a file that keeps the API server's last records, for a start without it; empty: none",
    ),
    _Option(
        "--listen",
        ":1053",
        _many(parse_endpoint),
        "ADDR:PORT",
        "where to answer by UDP and TCP; [ADDR]:PORT for IPv6, :PORT for every address, port 0 for a free one",
        repeatable=True,
    ),
    _Option("--zone", "ts.net", _many(_origin), "NAME", "a zone to answer for", repeatable=True),
    _Option("--ttl", "5", _ttl, "SECONDS", "how long answers may be cached"),
    _Option(
        "--ns-name",
        "nameserver.tailscale.svc.cluster.local.",
        _name,
        "NAME",
        "the name by which the zones name this nameserver",
    ),
    _Option(
        "--nsid",
        None,
        _nsid,
        "TEXT",
        "which of the replicas this is, for clients that ask with NSID; empty: they get no answer to that (default: "
        "HOSTNAME, a Pod's name)",
    ),
    _Option("--health", ":9002", _optional_endpoint, "ADDR:PORT", "where to answer probes by HTTP; empty: nowhere"),
    _Option("--metrics", ":9153", _optional_endpoint, "ADDR:PORT", "where to answer /metrics by HTTP; empty: nowhere"),
    _Option(
        "--api-server",
        None,
        _server,
        "URL",
        "the API server whose ConfigMaps it follows; empty: none (default in a Pod: the cluster's)",
    ),
    _Option("--namespace", None, str, "NAME", "the namespace of the ConfigMaps (default: the ServiceAccount's)"),
    _Option("--service-account", str(SERVICE_ACCOUNT), Path, "DIR", "the folder with token, ca.crt and namespace"),
    _Option("--drain", "0", _seconds, "SECONDS", "how long it still answers after SIGTERM, while it is not ready"),
    _Option(
        "--udp-loop",
        "auto",
        _loop,
        "LOOP",
        "auto: the compiled loop where it was built; python: a slower one in Python",
    ),
    _Option("--log-queries", "", _share, "SHARE", "log this share of the queries; 1/1000: about one of a thousand"),
    _Option("--log-level", "info", _level, "LEVEL", ", ".join(_LEVELS)),
    _Option("--log-format", "text", _format, "FORMAT", "text, or json: one object a line"),
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise SettingsError with a message of one line, instead of printing the usage."""
        raise SettingsError(message)


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings. A flag has priority over its variable, and a variable over the default.

    Raises SettingsError, and SystemExit for --help and --version.
    """
    flags = vars(_parser().parse_args(arguments))
    values = {option.name: _value(option, flags[option.name], environment) for option in _OPTIONS}
    return Settings(
        records=values["records"],
        snapshot=values["snapshot"],
        listen=values["listen"],
        zone=ZoneSettings(values["zone"], values["ttl"], values["ns_name"], _who(values["nsid"], environment)),
        health=values["health"],
        metrics=values["metrics"],
        api=_api(values["api_server"], values["namespace"], values["service_account"], environment),
        drain=values["drain"],
        log_level=values["log_level"],
        log_format=values["log_format"],
        udp_loop=values["udp_loop"],
        log_queries=values["log_queries"],
    )


def misspelt(environment: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each variable of *environment* that looks like a misspelt variable of the nameserver."""
    known = [option.variable for option in _OPTIONS]
    for name in sorted(set(environment).difference(known)):
        near = get_close_matches(name, known, n=1, cutoff=_ALIKE) if name.startswith(_PREFIX) else ()
        yield from (f"{name} is no setting and is not read: do you mean {each}?" for each in near)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        "tsnameserver",
        description="Answer DNS queries for the names of tailnets that the operator has written down.",
        epilog="Each flag has a variable: that of --ns-name is TSNAMESERVER_NS_NAME, and so on. If both are set, the "
        "flag counts. In a variable, commas separate repeated values. SIGHUP: read the records again. Exit status: 0 "
        "stopped by a signal, 1 cannot listen, 2 a setting is wrong.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tsnameserver {__version__} ({_LOOP})")
    for option in _OPTIONS:
        default = f" (default: {option.default})" if option.default else ""
        parser.add_argument(
            option.flag,
            dest=option.name,
            metavar=option.metavar,
            help=option.help + default + (", repeatable" if option.repeatable else ""),
            action="append",
        )
    return parser


def _value(option: _Option, flags: Sequence[str] | None, environment: Mapping[str, str]) -> Any:
    """Parse the value of *option*. If a flag is given several times and takes one value, the last one is used."""
    source = option.flag
    text: str | None
    if flags:
        text = " ".join(flags) if option.repeatable else flags[-1]
    elif option.variable in environment:
        source, text = option.variable, environment[option.variable]
    else:
        text = option.default
    if text is None:
        return None
    try:
        return option.parse(text)
    except (ValueError, InvalidNameError) as error:
        raise SettingsError(f"{source}: {text!r}: {error}") from error


def _who(nsid: str | None, environment: Mapping[str, str]) -> str:
    """Return *nsid*, or if it is None, the host name, which a container runtime puts into the variable HOSTNAME."""
    return environment.get("HOSTNAME", "")[:_MAX_NSID] if nsid is None else nsid


def _api(
    server: str | None, namespace: str | None, service_account: Path, environment: Mapping[str, str]
) -> ApiSettings | None:
    if server is None and (service_account / "token").exists():
        server = _cluster(environment)
    if not server:
        return None
    if not namespace:
        try:
            namespace = (service_account / "namespace").read_text().strip()
        except OSError as error:
            raise SettingsError("--namespace: it is needed with --api-server outside a Pod") from error
    return ApiSettings(server, namespace, service_account)


def _cluster(environment: Mapping[str, str]) -> str | None:
    """Return the URL of the cluster's API server; None outside of a Pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return None
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
