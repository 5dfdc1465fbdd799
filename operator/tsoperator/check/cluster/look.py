"""Looks at a cluster part by part: gathers the facts of each part, and passes them to pure checks, which judge them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import aiohttp

from tsoperator.api.objects import Key, Object, key_of
from tsoperator.check.cluster.conditions import check_conditions, check_ingresses
from tsoperator.check.cluster.events import check_warnings
from tsoperator.check.cluster.gather import BadCredentials, CannotLook, ClusterReader, Control, deployments
from tsoperator.check.cluster.installed import (
    Installed,
    check_pod_security,
    find_installed,
    findings_during_update,
    no_pods,
    not_installed,
)
from tsoperator.check.cluster.kinds import check_kinds, check_webhooks
from tsoperator.check.cluster.names import check_names
from tsoperator.check.cluster.proxies import ProxyObjects, check_devices, check_proxies
from tsoperator.check.cluster.rights import check_rights
from tsoperator.check.findings import OBJECTS, Finding, Verdict, failed, unseen
from tsoperator.check.replicas import LACKS, check_replicas
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import load_configuration
from tsoperator.kube.errors import KubeError
from tsoperator.runtime.ownership import owner_of

_REQUEST: Final = 10.0  # s: the time limit for an answer of the API server
_PART_SECONDS: Final = 30.0  # the time limit for one part

Progress = Callable[[str], None]
"""A function that shows the user which part the check looks at now."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The operator that a check looks at, the reader that gathers the facts about it, and the objects to look at.

    If the user has given a *namespace*, the check looks only at objects in that namespace or without a namespace.
    """

    installed: Installed
    gather: ClusterReader
    namespace: str | None

    def concerns(self, key: Key) -> bool:
        """Tell whether the user wants to see the object with this *key*."""
        return self.namespace is None or key.namespace in ("", self.namespace)

    def concerned(self, objects: Iterable[Object]) -> list[Object]:
        """Return those of *objects* that the user wants to see."""
        return [each for each in objects if self.concerns(key_of(each))]

    async def proxies(self) -> ProxyObjects:
        """Return the proxies of the objects that the user wants to see."""
        found = await self.gather.proxies()
        parents = ((each, owner_of(each)) for each in found.statefulsets)
        shown = [each for each, parent in parents if parent is None or self.concerns(parent.key)]
        return replace(found, statefulsets=shown)


async def _operator(target: _Target) -> Iterable[Finding]:
    replicas = await target.gather.replicas()
    if all(each.is_ending for each in replicas):
        return [no_pods(target.installed)]
    return findings_during_update(target.installed, check_replicas(target.installed.namespace, replicas))


async def _kinds(target: _Target) -> Iterable[Finding]:
    return check_kinds(await target.gather.served_kinds())


async def _rights(target: _Target) -> Iterable[Finding]:
    return check_rights(await target.gather.missing_rights())


async def _webhooks(target: _Target) -> Iterable[Finding]:
    return check_webhooks(await target.gather.webhooks())


async def _pod_security(target: _Target) -> Iterable[Finding]:
    namespace, statefulsets = await target.gather.namespace(), await target.gather.statefulsets()
    return [check_pod_security(namespace, statefulsets, target.installed.has_default_class)]


async def _names(target: _Target) -> Iterable[Finding]:
    return check_names(await target.gather.names())


async def _proxies(target: _Target) -> Iterable[Finding]:
    return check_proxies(await target.proxies())


async def _devices(target: _Target) -> Iterable[Finding]:
    control, proxies = await target.gather.control(), await target.proxies()
    found = [*check_control(control)]
    devices = {} if control.devices is None else {"": control.devices}
    for name in sorted({*proxies.elsewhere.values()}):
        try:
            devices[name] = await target.gather.devices_in(name)
        except CannotLook as error:
            found.append(unseen("devices", str(error), error.cure))
    return [*found, *(check_devices(proxies, devices) if devices else ())]


async def _conditions(target: _Target) -> Iterable[Finding]:
    objects, ingresses = (
        target.concerned(await target.gather.objects()),
        target.concerned(await target.gather.ingresses()),
    )
    return [*check_conditions(objects), *check_ingresses(ingresses, target.installed.ingress_class)]


async def _warnings(target: _Target) -> Iterable[Finding]:
    objects, ingresses = await target.gather.objects(), await target.gather.ingresses()
    return check_warnings(await target.gather.warnings(), target.concerned([*objects, *ingresses]))


class _Part(NamedTuple):
    """A part of a look: its function, the *check* that its findings name, and its name in *words* for the user."""

    check: str
    words: str
    look: Callable[[_Target], Awaitable[Iterable[Finding]]]


_PARTS: Final = (
    _Part("operator", "the operator's Pods", _operator),
    _Part("crds", "custom resource definitions", _kinds),
    _Part("rights", "the operator's rights (about a hundred questions)", _rights),
    _Part("webhooks", "webhooks", _webhooks),
    _Part("pod-security", "Pod security", _pod_security),
    _Part("names", "the nameserver and the cluster's DNS", _names),
    _Part("proxies", "proxies", _proxies),
    _Part("devices", "the control server and the proxies' devices", _devices),
    _Part(OBJECTS, "what Services, Ingresses and other objects say", _conditions),
    _Part(OBJECTS, "Warnings about objects", _warnings),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a look: the operator in *namespace*, and users' objects.

    If *of* isn't None, the look leaves out users' objects in other namespaces than *of*. *kubeconfig* and its *context*
    name the cluster.
    """

    kubeconfig: str
    namespace: str
    context: str = ""
    of: str | None = None


async def look(subject: Subject, progress: Progress, *, at_objects: bool = True) -> list[Finding]:
    """Look at an operator and its cluster, and return the findings.

    If *at_objects* is false, leave out users' objects, because the leader's report describes them better.
    """
    parts = [each for each in _PARTS if at_objects or each.check != OBJECTS]
    namespace = subject.namespace
    try:
        async with _client(subject) as client, aiohttp.ClientSession() as session:
            progress("the operator's Deployment")
            installed = find_installed(namespace, await deployments(client, namespace))
            if installed is None:
                return [not_installed(namespace)]
            target = _Target(installed, ClusterReader(client, session, installed), subject.of)
            return await _look(target, progress, parts)
    except KubeError as error:
        cure = "see that `kubectl get namespaces` works with this kubeconfig (KUBECONFIG or --kubeconfig)"
        return [unseen("cluster", f"the cluster can't be looked at: {error}", cure)]


async def _look(target: _Target, progress: Progress, parts: Iterable[_Part]) -> list[Finding]:
    found: list[Finding] = []
    for part in parts:
        progress(part.words)
        looked = await _findings_in_time(target, part)
        if part.look is _proxies and all(each.verdict is not Verdict.UNSEEN for each in looked):
            # The operator's metrics tell only how many proxies serve. Findings about each proxy replace that number.
            found = [each for each in found if each.check != part.check or each in looked]
        found += looked
    return found


async def _findings_in_time(target: _Target, part: _Part) -> list[Finding]:
    """Return the findings of *part*, or else one finding that says why we could not look at this part."""
    check, words = part.check, part.words
    try:
        async with asyncio.timeout(_PART_SECONDS):
            return [*await part.look(target)]
    except BadCredentials as error:
        return [failed("tailnet/credentials", str(error), error.cure)]
    except CannotLook as error:
        return [unseen(check, str(error), error.cure)]
    except TimeoutError:
        return [unseen(check, f"{words}: there was no answer within {_PART_SECONDS:g} s", "try again")]
    except KubeError as error:
        return [unseen(check, f"{words}: {error}", "use a kubeconfig that may read this, such as an administrator's")]


def check_control(control: Control) -> Iterator[Finding]:
    """Yield a finding for each setting that the tailnet lacks.

    If the control server can't be reached from here, yield a finding that says so.
    """
    for check, message in control.findings.wrong.items():
        if check == "api":
            cure = "run this where the control server can be reached; what the operator says of it is above"
            yield unseen("devices", f"the control server can't be asked from here: {message}", cure)
        else:
            yield failed(f"tailnet/{check}", LACKS[check], message)


@asynccontextmanager
async def _client(subject: Subject) -> AsyncIterator[KubeClient]:
    """Yield a client of the API server. Raises KubeError."""
    configuration = await load_configuration(subject.kubeconfig, subject.context)
    async with KubeClient(configuration, request_timeout=_REQUEST) as client:
        yield client
