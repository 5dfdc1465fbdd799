"""Checks from outside whether an installed operator and its nameserver answer.

`helm test` runs this in a Pod that has no rights in the cluster.
"""

import http.client
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tsoperator.api.names import LABEL_OPERATOR, OPERATOR
from tsoperator.settings import cluster_domain

_ANSWER: Final = 2.0  # s that one answer may take
_PAUSE: Final = 1.0  # s between two rounds of checks
_OUR_PODS: Final = f"{LABEL_OPERATOR}={OPERATOR}"
_NOERROR: Final = 0
_NOTIMP: Final = 4
"""The Go operator's nameserver answers this to questions for anything but addresses."""
_WHY: Final = {
    2: "SERVFAIL: it has no records yet, which the operator writes",
    5: "REFUSED: it doesn't serve that zone, which the operator puts into its records",
}


class Endpoint(NamedTuple):
    """A host, by name or address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Finding(NamedTuple):
    """The result of one check. If it isn't good, *words* say what to do."""

    good: bool
    words: str

    def __str__(self) -> str:
        return f"{'ok' if self.good else 'FAILED'}: {self.words}"


@dataclass(frozen=True, slots=True)
class Installation:
    """What to check. *operator* resolves to all Pods of the operator, and has the port of their probes.

    *zone* is a zone that *nameserver* must serve.
    """

    namespace: str
    operator: Endpoint
    nameserver: Endpoint | None
    zone: str


Resolve = Callable[[Endpoint], list[str]]
"""Returns the addresses of a host. Raises socket.gaierror."""


def endpoint(text: str) -> Endpoint:
    """Read ``HOST:PORT`` or ``[ADDRESS]:PORT``. Raises ValueError."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname or not parts.port:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return Endpoint(parts.hostname, parts.port)


def in_cluster(service: str, namespace: str, resolv_conf: str) -> str:
    """Return the full name of a Service, from the *resolv_conf* of a Pod.

    It ends in a dot, so that the resolver does not try its search path.
    """
    return f"{service}.{namespace}.svc.{cluster_domain(resolv_conf, namespace)}."


def addresses(of: Endpoint) -> list[str]:
    """Return the addresses of the host of an endpoint. Raises socket.gaierror."""
    return sorted({str(found[4][0]) for found in socket.getaddrinfo(*of, type=socket.SOCK_STREAM)})


def check(installation: Installation, seconds: float, resolve: Resolve = addresses) -> list[Finding]:
    """Check until all is good or *seconds* have passed, and return the last findings.

    A round of checks that has begun is always completed.
    """
    deadline = time.monotonic() + seconds
    while True:
        findings = [*_operator(installation, resolve), _nameserver(installation)]
        if all(each.good for each in findings) or time.monotonic() >= deadline:
            return findings
        time.sleep(_PAUSE)


def _operator(installation: Installation, resolve: Resolve) -> Iterator[Finding]:
    kubectl = f"kubectl -n {installation.namespace}"
    try:
        found = resolve(installation.operator)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            words = "the cluster's DNS doesn't answer this Pod: see whether it works, and what network policies allow"
        else:
            words = f"the operator has no Pod: see why with `{kubectl} describe pods,replicasets -l {_OUR_PODS}`"
        yield Finding(False, f"{words} ({installation.operator.host}: {error.strerror})")
        return
    for address in found:
        at = Endpoint(address, installation.operator.port)
        try:
            wrong = _not_ready(at)
        except (OSError, http.client.HTTPException) as error:
            wrong = (
                f"no answer ({_words(error)}): it hasn't started yet, or a network policy keeps this Pod from it; "
                f"see `{kubectl} get pods -l {_OUR_PODS}`"
            )
        if wrong:
            yield Finding(False, f"operator at {at}: {wrong}; its log says more: `{kubectl} logs -l {_OUR_PODS}`")
        else:
            yield Finding(True, f"operator at {at} is ready")


def _not_ready(operator: Endpoint) -> str:
    """Ask the readiness probe; return what it says is wrong. Raises OSError, HTTPException."""
    connection = http.client.HTTPConnection(*operator, timeout=_ANSWER)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        said = response.read().decode(errors="replace").splitlines()
    finally:
        connection.close()
    if response.status == 200:
        return ""
    failed = [line.removeprefix("[-] ") for line in said if line.startswith("[-] ")]
    return f"not ready: {', '.join(failed) or f'HTTP {response.status}'}"


def _nameserver(installation: Installation) -> Finding:
    server, zone, kubectl = installation.nameserver, installation.zone, f"kubectl -n {installation.namespace}"
    if server is None:
        return Finding(True, "there is no nameserver; make a DNSConfig for the cluster's Pods to resolve tailnet names")
    at = f"nameserver at {server}"
    try:
        rcode, answers = _ask_soa(server, zone)
    except OSError as error:
        see = f"`{kubectl} describe pods -l app=nameserver`, and what network policies allow"
        return Finding(False, f"{at} doesn't answer ({_words(error)}): see {see}")
    if rcode == _NOTIMP or (rcode == _NOERROR and answers):
        return Finding(True, f"{at} answers for {zone}")
    why = _WHY.get(rcode, f"rcode {rcode} is no answer of a nameserver of ours")
    return Finding(False, f"{at}, asked for {zone}: {why}; `{kubectl} logs -l app=nameserver` says more")


def _ask_soa(server: Endpoint, zone: str) -> tuple[int, int]:
    """Ask for the SOA of *zone* by UDP; return the rcode and the number of answers. Raises OSError."""
    ident = os.urandom(2)
    labels = [label.encode() for label in zone.strip(".").split(".")]
    name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    family, kind, _, _, address = socket.getaddrinfo(*server, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as asking:
        asking.settimeout(_ANSWER)
        asking.connect(address)
        asking.send(ident + struct.pack("!5H", 0, 1, 0, 0, 0) + name + struct.pack("!2H", 6, 1))
        response = asking.recv(4096)
    if len(response) < 12 or response[:2] != ident:
        raise OSError("what came was no answer")
    flags, _, answers = struct.unpack_from("!3H", response, 2)
    return flags & 0xF, answers


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
