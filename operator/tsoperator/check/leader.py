"""Fetches the report of the operator's leader: through the API server, or directly inside a Pod of the operator.

The Lease names the Pod that leads. If there is no Lease, as without leader election, we ask all Pods of the operator.
"""

import argparse
import asyncio
import http.client
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, Self

from pydantic_core import from_json

from tsoperator.api.names import LEASE_NAME
from tsoperator.api.objects import LEASE, POD, Key, is_deleting, key_of
from tsoperator.check.replicas import OUR_PODS
from tsoperator.check.report import BadReport, LeaderReport, read_report
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import is_in_cluster, load_configuration
from tsoperator.kube.errors import Denied, KubeError, NotFound, NotListening
from tsoperator.kube.portforward import ForwardedPort, PodAnswer

NAMESPACE: Final = "tailscale"
"""The namespace in which we look for the operator if the user names none."""

_ADDRESS: Final = "127.0.0.1:9003"  # of the report, in a Pod of the operator
_PATH: Final = "/status"
_REQUEST: Final = 10.0  # s: the time limit for an answer of the API server
_ANSWER: Final = 20.0  # s: the time limit for an answer of the leader
_SAME_VERSION: Final = "use the version of tsoperator that runs in the cluster"
_NAME_IT: Final = "name its namespace with --operator-namespace"
_ABSENT_CURE: Final = f"{_NAME_IT}, or install it (docs/install.md); Tailscale's operator has no report"


class NoReport(Exception):
    """An error: we can't get a report. *cure* says what to do.

    *namespace* is the namespace of the operator; empty if we found no operator.
    """

    def __init__(self, words: str, cure: str, namespace: str = "") -> None:
        super().__init__(words)
        self.cure = cure
        self.namespace = namespace


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """The facts by which we find an operator: a *kubeconfig* with its *context*, and the namespaces in which we look.

    *named* is the operator's namespace if the user has given it. Otherwise we look in the namespace *hint*, if it isn't
    empty, in `NAMESPACE`, and at last in all namespaces.
    """

    kubeconfig: str = ""
    context: str = ""
    named: str = ""
    hint: str = ""

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Self:
        """Return the facts by which we find the operator, from the options of a command.

        In earlier versions, the option ``--namespace`` of a check named the operator's namespace. So we also look for
        the operator in that namespace.
        """
        kubeconfig = arguments.kubeconfig or os.environ.get("KUBECONFIG", "")
        return cls(kubeconfig, arguments.context, arguments.operator_namespace, arguments.namespace)

    @property
    def is_inside(self) -> bool:
        """True if this process runs in a Pod of the cluster."""
        return is_in_cluster(self.kubeconfig) and not self.context

    @property
    def namespaces(self) -> list[str]:
        """The namespaces in which we look for the operator, the most likely one first."""
        return [self.named] if self.named else [*dict.fromkeys(filter(None, (self.hint, NAMESPACE)))]


class StatusPort(Protocol):
    """A connection to the port of the report in one Pod."""

    def get(self, path: str, etag: str = "") -> PodAnswer:
        """Return the answer to a GET of *path*; its status is 304 if the ETag is still *etag*. Raises KubeError."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class _LocalPort:
    """The port of the report in the Pod in which this process runs. Its methods raise NotListening."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = http.client.HTTPConnection(host.strip("[]") or "127.0.0.1", int(port), timeout=_ANSWER)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def get(self, path: str, etag: str = "") -> PodAnswer:
        """Return the answer to a GET of *path*; its status is 304 if the ETag is still *etag*."""
        try:
            return PodAnswer.read(self._connection, path, etag)
        except (OSError, http.client.HTTPException) as error:
            raise NotListening(str(error) or type(error).__name__) from error


class _Way(NamedTuple):
    """The credentials of the user, and the Pods to ask, the most probable leader first."""

    configuration: Any
    token: str
    pods: Sequence[Key]


class _Kept(NamedTuple):
    """The connection to the Pod that led at the latest look, and this Pod's report."""

    pod: Key
    port: StatusPort
    etag: str
    report: LeaderReport


@dataclass(slots=True)
class LeaderReports:
    """Fetches the leader's reports over one connection; if that breaks, over a new one. Call `close` at the end."""

    place: OperatorPlace
    _kept: _Kept | None = field(default=None, repr=False)

    def close(self) -> None:
        """Close the connection."""
        if self._kept is not None:
            self._kept.port.close()
        self._kept = None

    def fetch(self) -> LeaderReport:
        """Return the leader's present report; the same object as before if nothing has changed. Raises NoReport."""
        if (kept := self._kept) is not None:
            try:
                answer = kept.port.get(_PATH, kept.etag)
                return kept.report if answer.status == 304 else self._keep(kept.pod, kept.port, answer)
            except (KubeError, _Standby, NoReport):  # look for the leader again: perhaps another Pod leads now
                self.close()
        if self.place.is_inside and (found := self._fetch_here()) is not None:
            return found
        return self._fetch_by(asyncio.run(_find(self.place)))

    def _fetch_here(self) -> LeaderReport | None:
        """Return the report of the Pod in which this process runs; None if that is no Pod of the operator.

        Raises NoReport.
        """
        pod = Key(os.environ.get("OPERATOR_NAMESPACE", NAMESPACE), os.environ.get("POD_NAME", "here"))
        port = _LocalPort(os.environ.get("OPERATOR_STATUS_ADDR") or _ADDRESS)
        try:
            return self._fetch_through(pod, port)
        except NotListening:
            return None
        except _Standby as standby:
            raise _stands_by(pod, standby.leader) from standby

    def _fetch_by(self, way: _Way) -> LeaderReport:
        failure = NoReport("the operator has no Pod", _ABSENT_CURE)
        asked, waiting = set[Key](), [*way.pods]
        while waiting:
            pod = waiting.pop(0)
            asked.add(pod)
            try:
                return self._fetch_from(way, pod)
            except _Standby as standby:
                failure = _stands_by(pod, standby.leader)
                if standby.leader and (leader := Key(pod.namespace, standby.leader)) not in asked:
                    waiting.insert(0, leader)
            except KubeError as error:
                failure = _unreached(pod, error)
        raise failure

    def _fetch_from(self, way: _Way, pod: Key) -> LeaderReport:
        port = ForwardedPort(way.configuration, way.token, pod, int(_ADDRESS.rpartition(":")[2]), _ANSWER)
        return self._fetch_through(pod, port)

    def _fetch_through(self, pod: Key, port: StatusPort) -> LeaderReport:
        """Return the report of *pod*, and keep *port* for the next report. Raises KubeError, NoReport, _Standby."""
        try:
            return self._keep(pod, port, port.get(_PATH))
        except BaseException:
            port.close()
            raise

    def _keep(self, pod: Key, port: StatusPort, answer: PodAnswer) -> LeaderReport:
        found = _report(pod, answer)
        self._kept = _Kept(pod, port, answer.etag, found)
        return found


class _Standby(Exception):
    """An error: the Pod that we asked does not lead; *leader* is the name of the Pod that leads; empty if unknown."""

    def __init__(self, leader: str) -> None:
        super().__init__(leader)
        self.leader = leader


def _report(pod: Key, answer: PodAnswer) -> LeaderReport:
    """Return the report in the *answer* of *pod*. Raises NoReport, _Standby."""
    try:
        if answer.status == 200:
            return read_report(answer.body)
        if answer.status == 503:
            raise _Standby(str(from_json(answer.body).get("leader") or ""))
    except (BadReport, ValueError, AttributeError) as error:
        words = f"what Pod {pod} answers is no report of this operator: {error}"
        raise NoReport(words, _SAME_VERSION, pod.namespace) from error
    words = f"Pod {pod} has no report (HTTP {answer.status})"
    raise NoReport(words, _SAME_VERSION, pod.namespace)


async def _find(place: OperatorPlace) -> _Way:
    """Return the Pods to ask for the report, and the user's credentials. Raises NoReport."""
    try:
        configuration = await load_configuration(place.kubeconfig, place.context)
        async with KubeClient(configuration, request_timeout=_REQUEST) as client:
            pods = await _pods(client, place)
        token = await configuration.get_api_key_with_prefix("BearerToken", "authorization")
    except Denied as error:
        words = f"you may not look for the operator: {error}"
        raise NoReport(words, f"{_NAME_IT}; you need the right to get leases there") from error
    except KubeError as error:
        cure = "see that `kubectl get namespaces` works with this kubeconfig (KUBECONFIG or --kubeconfig, --context)"
        raise NoReport(f"the cluster can't be reached: {error}", cure) from error
    return _Way(configuration, token or "", pods)


async def _pods(client: KubeClient, place: OperatorPlace) -> Sequence[Key]:
    """Return the Pods to ask: the holder of a Lease, or else all Pods of an operator. Raises KubeError, NoReport."""
    denied: Denied | None = None
    for namespace in place.namespaces:
        try:
            lease = await client.get(LEASE, Key(namespace, LEASE_NAME))
        except NotFound:
            continue
        except Denied as error:
            denied = error
            continue
        return [_holder(Key(namespace, LEASE_NAME), lease)]
    for namespace in place.namespaces:
        if found := await _running(client, namespace):
            return found
    if place.named:
        if denied is not None:
            raise denied
        raise _absent(f"namespace {place.named}")
    return [await _anywhere(client, denied)]


async def _anywhere(client: KubeClient, denied: Denied | None) -> Key:
    """Return the leading Pod of the cluster's only operator, which can be in any namespace. Raises NoReport or Denied.

    *denied* is an earlier error, which is raised if we can't look in all namespaces.
    """
    try:
        leases = (await client.list(LEASE, field_selector=f"metadata.name={LEASE_NAME}")).items
    except Denied as error:
        if denied is not None:
            raise denied from error
        raise _absent(f"namespace {NAMESPACE}") from error
    if not leases:
        raise _absent("the cluster")
    if len(leases) > 1:
        names = ", ".join(sorted(key_of(each).namespace for each in leases))
        raise NoReport(f"there are several operators, in the namespaces {names}", _NAME_IT)
    return _holder(key_of(leases[0]), leases[0])


async def _running(client: KubeClient, namespace: str) -> list[Key]:
    """Return the running Pods of an operator in *namespace*; empty if we aren't allowed to list them."""
    try:
        pods = (await client.list(POD, namespace, OUR_PODS)).items
    except Denied:
        return []
    return [key_of(each) for each in pods if each.get("status", {}).get("phase") == "Running" and not is_deleting(each)]


def _holder(key: Key, lease: Any) -> Key:
    """Return the Pod that holds the *lease*. Raises NoReport."""
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    if not holder:
        raise NoReport(
            f"no operator leads: nobody holds the Lease {key}",
            f"wait some seconds; if this stays, see `kubectl -n {key.namespace} get pods -l {OUR_PODS}`",
            key.namespace,
        )
    return Key(key.namespace, holder.rpartition("_")[0] or holder)


def _absent(where: str) -> NoReport:
    return NoReport(f"there is no operator in {where}", _ABSENT_CURE)


def _stands_by(pod: Key, leader: str) -> NoReport:
    command = f"kubectl -n {pod.namespace} exec {leader} -- python3 -m tsoperator list"
    is_other = leader and leader != pod.name  # a Pod that has just got the Lease leads soon
    cure = f"ask the Pod that leads: `{command}`" if is_other else "wait some seconds until a Pod leads"
    return NoReport(f"Pod {pod} does not lead", cure, pod.namespace)


def _unreached(pod: Key, error: KubeError) -> NoReport:
    see = f"`kubectl -n {pod.namespace} get pods -l {OUR_PODS}`"
    match error:
        case Denied():
            words = f"you may not forward a port of Pod {pod}: {error}"
            cure = (
                f"ask for the right to get and create pods/portforward in namespace {pod.namespace}, or use `kubectl "
                f"-n {pod.namespace} exec {pod.name} -- python3 -m tsoperator list`"
            )
        case NotFound():
            words = f"Pod {pod} led last, and is gone"
            cure = f"wait some seconds until another Pod leads; if this stays, see {see}"
        case NotListening():
            words = f"the operator in Pod {pod} shows no report: {error}"
            cure = "upgrade the operator, or unset OPERATOR_STATUS_ADDR, so that it shows one at 127.0.0.1:9003"
        case _:
            words = f"Pod {pod} doesn't answer through the API server: {error}"
            cure = f"try again; if this stays, see {see}"
    return NoReport(words, cure, pod.namespace)
