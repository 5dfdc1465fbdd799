"""Asks the operator's Pods and the nameserver over the network, which needs no rights in the cluster."""

import http.client
import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tsoperator.check.endpoint import Endpoint
from tsoperator.check.findings import Finding, failed, ok
from tsoperator.check.replicas import OUR_PODS, OperatorPod, Page, check_replicas, read_replica
from tsoperator.settings import cluster_domain

_ANSWER: Final = 2.0  # s: the time limit for one answer
_NOERROR: Final = 0
_NOTIMP: Final = 4
"""The rcode NOTIMP, with which the Go operator's nameserver answers queries for anything but addresses."""
_WHY: Final = {
    2: "SERVFAIL: it has no records yet, which the operator writes",
    5: "REFUSED: it doesn't serve that zone, which the operator puts into its records",
}


@dataclass(frozen=True, slots=True)
class Installation:
    """The servers that a check asks.

    The host of *operator* resolves to all Pods of the operator, and its port is that of their probes and metrics.
    *zone* is a zone that *nameserver* must serve.
    """

    namespace: str
    operator: Endpoint
    nameserver: Endpoint | None
    zone: str

    @property
    def kubectl(self) -> str:
        """The beginning of the kubectl commands in advice to users, with the operator's namespace."""
        return f"kubectl -n {self.namespace}"


Resolve = Callable[[Endpoint], list[str]]
"""A function that returns the addresses of a host. It raises socket.gaierror."""


def in_cluster(service: str, namespace: str, resolv_conf: str) -> str:
    """Return the full name of the Service *service*, with the cluster's domain from a Pod's *resolv_conf*.

    The name ends in a dot, so that the resolver does not try its search path.
    """
    return f"{service}.{namespace}.svc.{cluster_domain(resolv_conf, namespace)}."


def addresses(of: Endpoint) -> list[str]:
    """Return the addresses of the host of the endpoint *of*. Raises socket.gaierror."""
    return sorted({str(found[4][0]) for found in socket.getaddrinfo(*of, type=socket.SOCK_STREAM)})


def ask(installation: Installation, resolve: Resolve = addresses) -> list[Finding]:
    """Ask the operator's Pods and the nameserver once, and return the findings."""
    return [*_ask_operator(installation, resolve), _ask_nameserver(installation)]


def _ask_operator(installation: Installation, resolve: Resolve) -> Iterator[Finding]:
    try:
        found = resolve(installation.operator)
    except socket.gaierror as error:
        why = f"({installation.operator.host}: {error.strerror})"
        if error.errno == socket.EAI_AGAIN:
            words = f"the cluster's DNS doesn't answer this Pod {why}"
            cure = "see whether the cluster's DNS works, and what network policies allow"
        else:
            words = f"the operator has no Pod {why}"
            kinds = "deployments,replicasets,pods"
            cure = f"see why with `{installation.kubectl} describe {kinds} --show-events -l {OUR_PODS}`"
        yield failed("operator", words, cure)
        return
    port = installation.operator.port
    replicas = [_replica(installation, Endpoint(address, port)) for address in found]
    yield from check_replicas(installation.namespace, replicas)


def _replica(installation: Installation, at: Endpoint) -> OperatorPod:
    """Ask the readiness probe and the metrics of the operator's Pod at the endpoint *at*."""
    kubectl = installation.kubectl
    try:
        readyz, metrics = _get(at, "/readyz"), _get(at, "/metrics")
    except (OSError, http.client.HTTPException) as error:
        cure = (
            "it hasn't started yet, or a network policy keeps this Pod from it; see "
            f"`{kubectl} get pods -l {OUR_PODS}` and `{kubectl} logs -l {OUR_PODS}`"
        )
        return OperatorPod(str(at), f"no answer ({_words(error)})", cure)
    return read_replica(str(at), readyz, metrics, f"its log says more: `{kubectl} logs -l {OUR_PODS}`")


def _get(at: Endpoint, path: str) -> Page:
    """Return the answer of the endpoint *at* to a GET of *path*. Raises OSError, HTTPException."""
    connection = http.client.HTTPConnection(*at, timeout=_ANSWER)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Page(response.status, response.read().decode(errors="replace"))
    finally:
        connection.close()


def _ask_nameserver(installation: Installation) -> Finding:
    server, zone, kubectl = installation.nameserver, installation.zone, installation.kubectl
    if server is None:
        words = (
            "there is no nameserver; set dns.enabled of the chart, or make a DNSConfig, for the cluster's Pods to "
            "resolve tailnet names"
        )
        return ok("nameserver", words)
    at = f"nameserver at {server}"
    try:
        rcode, answers = _ask_soa(server, zone)
    except OSError as error:
        cure = f"see `{kubectl} describe pods --show-events -l app=nameserver`, and what network policies allow"
        return failed("nameserver", f"{at} doesn't answer ({_words(error)})", cure)
    if rcode == _NOTIMP or (rcode == _NOERROR and answers):
        return ok("nameserver", f"{at} answers for {zone}")
    why = _WHY.get(rcode, f"rcode {rcode} is no answer of a nameserver of ours")
    return failed("nameserver", f"{at}, asked for {zone}: {why}", f"`{kubectl} logs -l app=nameserver` says more")


def _ask_soa(server: Endpoint, zone: str) -> tuple[int, int]:
    """Ask *server* for the SOA of *zone* by UDP; return the rcode and the number of answers. Raises OSError."""
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
