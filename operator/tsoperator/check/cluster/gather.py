"""Gathers the facts that the checks of a cluster judge. It only reads, and changes nothing."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import aiohttp
from pydantic import SecretStr

from tsoperator.api.conditions import conditions_of
from tsoperator.api.device import Device
from tsoperator.api.names import LABEL_MANAGED, LABEL_SERVICE_NAME, MANAGED, NAMESERVER, PARENT_NAMESERVER
from tsoperator.api.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    DNSCONFIG,
    ENDPOINTSLICE,
    EVENT,
    INGRESS,
    OWN_KINDS,
    POD,
    PROXYGROUP,
    SECRET,
    SERVICE,
    STATEFULSET,
    TAILNET,
    TAILNET_USERS,
    Key,
    Object,
    Resource,
    is_deleting,
    key_of,
)
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.tailnet import Tailnet
from tsoperator.check.cluster.events import WARNINGS
from tsoperator.check.cluster.installed import Installed, SecretKey
from tsoperator.check.cluster.kinds import Webhooks, has_ready_endpoint, webhook_services
from tsoperator.check.cluster.names import NameResolution
from tsoperator.check.cluster.proxies import ProxyObjects, pod_problem, refusals_of
from tsoperator.check.cluster.rights import AccessQuestion, questions
from tsoperator.check.replicas import OUR_PODS, OperatorPod, Page, read_replica
from tsoperator.group.hosted import is_host_in
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import KubeError, NotFound
from tsoperator.proxy.secret import slim
from tsoperator.runtime.cache import without_managed_fields
from tsoperator.runtime.events import EventRecorder
from tsoperator.runtime.ownership import OF_RECORDERS, owner_of
from tsoperator.runtime.plan import Refusal
from tsoperator.tailnet.credentials import credentials, login_url, secret_name, violation
from tsoperator.tailnet.preflight import Findings, Preflight
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError
from tsoperator.tsclient.oauth import Credentials, Identity
from tsoperator.tsclient.transport import Retry

NAMESPACE: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
_REVIEW: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
_WEBHOOKS: Final = tuple(
    Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
)
_MANAGED: Final = (f"{LABEL_MANAGED}={MANAGED}", OF_RECORDERS)
"""The label selectors of the objects that the operator makes. The objects of Recorders have labels of their own."""
_DNS_NAMESPACE: Final = "kube-system"
_AT_ONCE: Final = 16  # the most requests at a time
_CALL: Final = 10.0  # s: the time limit for a call of the control server

Value = TypeVar("Value")


def _slim(obj: Object) -> Object:
    """Return *obj*, a user's object, with only the fields that checks need. This saves memory if there are many."""
    kept = ("namespace", "name", "uid", "creationTimestamp", "deletionTimestamp")
    metadata = {name: obj["metadata"][name] for name in kept if name in obj["metadata"]}
    tailnet = (obj.get("spec") or {}).get("tailnet", "")
    return {
        "kind": obj["kind"],
        "metadata": metadata,
        "spec": {"tailnet": tailnet},
        "status": {"conditions": conditions_of(obj)},
    }


class CannotLook(Exception):
    """An error: the check can't look at a part of the cluster or of the tailnet. *cure* says what to do."""

    def __init__(self, words: str, cure: str) -> None:
        super().__init__(words)
        self.cure = cure


class BadCredentials(CannotLook):
    """An error: the Secret has no usable credentials for the operator, so the operator can't log in, either."""


@dataclass(frozen=True, slots=True)
class Control:
    """The control server's answers about the operator's own tailnet.

    *findings* say whether the tailnet is set up for the operator. *devices* are the devices of the tailnet; None if we
    can't list them, which a finding says.
    """

    findings: Findings
    devices: dict[str, Device] | None


class ClusterReader:
    """Reads the facts about one installed operator. All methods raise KubeError; some raise CannotLook."""

    def __init__(self, client: KubeClient, session: aiohttp.ClientSession, installed: Installed) -> None:
        self._client = client
        self._session = session
        self._installed = installed
        self._namespace = installed.namespace

    async def replicas(self) -> list[OperatorPod]:
        """Return the operator's Pods with their probes and metrics.

        Pods that are being deleted are among them, because such a Pod can still lead.
        """
        pods = (await self._client.list(POD, self._namespace, OUR_PODS)).items
        found = await _together(map(self._replica, pods))
        return [replace(each, is_ending=is_deleting(pod)) for each, pod in zip(found, pods, strict=True)]

    async def missing_rights(self) -> list[AccessQuestion]:
        """Return the rights that the operator lacks, according to the API server."""
        asked = questions(self._installed)
        allowed = await _together(map(self._is_allowed, asked))
        return [question for question, is_allowed in zip(asked, allowed, strict=True) if not is_allowed]

    async def served_kinds(self) -> list[Resource]:
        """Return those of the operator's kinds that the API server serves."""
        served = await _together(map(self._client.serves, OWN_KINDS))
        return [kind for kind, is_served in zip(OWN_KINDS, served, strict=True) if is_served]

    async def webhooks(self) -> Webhooks:
        """Return the webhooks, and the Services behind them that have a ready Pod."""
        found = [obj for kind in _WEBHOOKS for obj in (await self._client.list(kind)).items]
        services = [*webhook_services(found)]
        ready = await _together(map(self._has_ready_pod, services))
        labels = (await self.namespace())["metadata"].get("labels") or {}
        return Webhooks(found, labels, {service for service, is_ready in zip(services, ready, strict=True) if is_ready})

    async def namespace(self) -> Object:
        """Return the operator's namespace."""
        return await self._client.get(NAMESPACE, Key("", self._namespace))

    async def statefulsets(self) -> list[Object]:
        """Return the StatefulSets of the proxies."""
        found = await self._managed(STATEFULSET)
        return [each for each in found if (owner := owner_of(each)) and owner.type != PARENT_NAMESERVER]

    async def names(self) -> NameResolution:
        """Return the objects by which MagicDNS names resolve in the cluster."""
        nameserver = Key(self._namespace, NAMESERVER)
        return NameResolution(
            self._namespace,
            await self._listed(DNSCONFIG, slim=without_managed_fields),
            await self._found(SERVICE, nameserver),
            await self._found(DEPLOYMENT, nameserver),
            (await self._client.list(CONFIGMAP, _DNS_NAMESPACE)).items,
        )

    async def proxies(self) -> ProxyObjects:
        """Return the proxies, with the facts about their devices from their Secrets."""
        pods, secrets = await self._managed(POD), await self._managed(SECRET, slim)
        refused = "involvedObject.kind=StatefulSet,reason=FailedCreate"
        events = (await self._client.list(EVENT, self._namespace, field_selector=refused)).items
        events.sort(key=lambda each: each.get("lastTimestamp") or "")
        parents = [each for kind in TAILNET_USERS for each in await self._listed(kind)]
        return ProxyObjects(
            await self.statefulsets(),
            {key_of(each): each for each in pods},
            {key_of(each): each for each in secrets},
            refusals_of(events),
            {f"{each['kind']} {key_of(each)}": name for each in parents if (name := each["spec"].get("tailnet"))},
        )

    async def _managed(self, resource: Resource, slim: Callable[[Object], Object] = lambda obj: obj) -> list[Object]:
        """Return the objects of *resource* that the operator has made in its namespace, each reduced by *slim*."""
        found = [await self._client.list(resource, self._namespace, each, slim=slim) for each in _MANAGED]
        return [obj for each in found for obj in each.items]

    async def objects(self) -> list[Object]:
        """Return the objects that can have conditions of the operator: Services, and the objects of its own kinds."""
        places = self._installed.watched or [""]
        services = [each for place in places for each in await self._listed(SERVICE, place)]
        return services + [each for kind in OWN_KINDS for each in await self._listed(kind)]

    async def ingresses(self) -> list[Object]:
        """Return the Ingresses of users."""
        places = self._installed.watched or [""]
        return [each for place in places for each in await self._listed(INGRESS, place, without_managed_fields)]

    async def warnings(self) -> list[Object]:
        """Return the Warnings of the last hour in the namespaces of users' objects."""
        watched = self._installed.watched
        places = [*dict.fromkeys((*watched, "default"))] if watched else [""]  # for objects without a namespace
        found = [await self._client.list(EVENT, each, field_selector=WARNINGS) for each in places]
        return [obj for each in found for obj in each.items]

    async def control(self) -> Control:
        """Ask the control server with the operator's credentials, and return its answers. Raises CannotLook."""
        tailnet = self._tailnet(self._installed.control_url, await self._credentials())
        preflight = Preflight(tailnet, EventRecorder(self._client), _nobody)
        exposes = any(is_host_in(each, "") for each in await self._listed(PROXYGROUP, slim=without_managed_fields))
        preflight.needs_services = lambda: exposes
        findings = await preflight.look()
        devices = None
        if findings.passed.get("devices"):
            try:
                devices = await tailnet.devices()
            except ControlError as error:
                raise CannotLook(f"the devices of the tailnet can't be listed: {error}", "try again") from error
        return Control(findings, devices)

    async def devices_in(self, name: str) -> dict[str, Device]:
        """Return the devices in the tailnet of the Tailnet called *name*. Raises CannotLook."""
        words, cure = f"the devices of Tailnet {name} can't be listed: ", f"see `kubectl describe tailnet {name}`"
        obj = await self._found(TAILNET, Key("", name))
        if obj is None:
            raise CannotLook(f"{words}it does not exist", f"create Tailnet {name}")
        tailnet, key = Tailnet.parse(obj), Key(self._namespace, secret_name(obj))
        if isinstance(tailnet, Invalid):
            raise CannotLook(f"{words}{tailnet.message}", cure)
        given = violation(tailnet) or credentials(key, await self._found(SECRET, key))
        if isinstance(given, Refusal):
            raise CannotLook(f"{words}{given.message}", cure)
        shown = Credentials(given.client_id, given.client_secret)
        ours = await self._identity(given.client_id, given.audience) if given.audience else shown
        try:
            return await self._tailnet(login_url(tailnet), ours).devices()
        except ControlError as error:
            raise CannotLook(f"{words}{error}", cure) from error

    def _tailnet(self, url: str, ours: Credentials | Identity) -> TailnetClient:
        retry = Retry(tries=2, call=_CALL, silence=_CALL / 2)
        return TailnetClient(self._session, url, lambda: ours, retry=retry)

    async def _identity(self, client_id: str, audience: str) -> Identity:
        account = Key(self._namespace, self._installed.service_account)
        token = await self._client.request_token(account, audience)
        return Identity(client_id, SecretStr(token["token"]))

    async def _credentials(self) -> Credentials | Identity:
        """Return the operator's credentials. Raises CannotLook."""
        if identity := self._installed.identity:
            return await self._identity(identity.client_id, identity.audience)
        id_, secret = (self._installed.secret_key(name) for name in ("CLIENT_ID_FILE", "CLIENT_SECRET_FILE"))
        if id_ is None or secret is None:
            words = "the operator's credentials are in no Secret, so the control server can't be asked for devices"
            raise CannotLook(words, "see what the operator says of its tailnet, above; and look at the admin console")
        return Credentials(await self._secret_value(id_), SecretStr(await self._secret_value(secret)))

    async def _secret_value(self, key: SecretKey) -> str:
        """Return the text that a Secret has under *key*. Raises BadCredentials."""
        try:
            data = (await self._client.get(SECRET, key.secret)).get("data") or {}
            return base64.b64decode(data[key.name]).decode().strip()
        except (NotFound, KeyError, ValueError) as error:
            words = f"there is no usable {key.name} in Secret {key.secret}, from which the operator has its credentials"
            cure = "put client_id and client_secret of an OAuth client into that Secret"
            raise BadCredentials(words, cure) from error

    async def _replica(self, pod: Object) -> OperatorPod:
        key, problem = key_of(pod), pod_problem(pod)
        see = f"see `kubectl -n {key.namespace} describe pod {key.name}`, and its log"
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        if not any("running" in (each.get("state") or {}) for each in statuses):
            return OperatorPod(key.name, problem or "it doesn't run", see)
        try:
            readyz, metrics = await self._ask(key, "/readyz"), await self._ask(key, "/metrics")
        except KubeError as error:
            return OperatorPod(key.name, problem, see, unread=str(error))
        found = read_replica(key.name, readyz, metrics, see)
        return replace(found, wrong=found.wrong or problem, cure=see)

    async def _ask(self, pod: Key, path: str) -> Page:
        return Page(*await self._client.ask_pod(pod, self._installed.health_port, path))

    async def _is_allowed(self, question: AccessQuestion) -> bool:
        review = await self._client.create(_REVIEW, question.review(self._installed.account))
        return bool((review.get("status") or {}).get("allowed"))

    async def _has_ready_pod(self, service: Key) -> bool:
        slices = await self._client.list(ENDPOINTSLICE, service.namespace, f"{LABEL_SERVICE_NAME}={service.name}")
        return has_ready_endpoint(slices.items)

    async def _listed(
        self, resource: Resource, namespace: str = "", slim: Callable[[Object], Object] = _slim
    ) -> list[Object]:
        """Return all objects of a kind, reduced by *slim*; empty if the API server doesn't serve the kind."""
        try:
            return (await self._client.list(resource, namespace, slim=slim)).items
        except NotFound:
            return []

    async def _found(self, resource: Resource, key: Key) -> Object | None:
        try:
            return await self._client.get(resource, key)
        except NotFound:
            return None


async def deployments(client: KubeClient, namespace: str) -> list[Object]:
    """Return the Deployments in *namespace*. Raises KubeError."""
    return (await client.list(DEPLOYMENT, namespace)).items


async def _nobody() -> None:
    """Return None as the object for the preflight's Events: a check prints the findings instead of writing Events."""


async def _together(calls: Iterable[Awaitable[Value]]) -> list[Value]:
    """Run *calls*, a few at a time, and return their results in the same order. Raises the first error."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Awaitable[Value]) -> Value:
        async with gate:
            return await call

    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(one(call)) for call in calls]
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return [each.result() for each in running]
