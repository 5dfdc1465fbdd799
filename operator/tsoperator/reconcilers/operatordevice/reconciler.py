"""Gathers the facts about the operator's own device that `plan` and `apiserverproxy` need."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial

from tsoperator.api.apiserver import ProxyMode
from tsoperator.api.objects import (
    DEPLOYMENT,
    DEVICE,
    IDENTITY,
    INGRESS,
    POD,
    PROXYGROUP,
    SECRET,
    SECRET_METADATA,
    SERVICE,
    SERVICEACCOUNT,
    STATEFULSET,
    TAILSCALE_SERVICE,
    Key,
    Object,
    key_of,
)
from tsoperator.group.claims import by_label
from tsoperator.group.hosted import is_host
from tsoperator.group.proxygroup import BY_GROUP
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import Denied, NotFound
from tsoperator.kube.watch import Selection
from tsoperator.proxy.certificate import MissingCertificate, ObservedCertificate, missing
from tsoperator.proxy.login import Keys, Login
from tsoperator.proxy.pod import is_of_statefulset
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import certificate_of, device_id_of, slim
from tsoperator.reconcilers.hosting import tailnet_of
from tsoperator.reconcilers.operatordevice import apiserverproxy
from tsoperator.reconcilers.operatordevice import plan as plans
from tsoperator.reconcilers.operatordevice.apiserverproxy import ObservedProxy
from tsoperator.reconcilers.operatordevice.ask import Ask, ask_of, claim_in_need
from tsoperator.reconcilers.operatordevice.children import in_the_way
from tsoperator.reconcilers.operatordevice.deployment import placement
from tsoperator.reconcilers.operatordevice.notices import reported_device
from tsoperator.runtime import predecessor
from tsoperator.runtime.cache import Cache, Source, only_identity
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.ownership import BY_OWNER, owner_of
from tsoperator.runtime.plan import Child, Creation, Decision, Plan, Question, Refusal
from tsoperator.runtime.result import Pending
from tsoperator.settings import Settings
from tsoperator.tailnet.identity import KnownIdentity
from tsoperator.tailnet.refusals import refusal_of
from tsoperator.tailnet.tailnet import OWN, Tailnets

log = logging.getLogger(__name__)


def operatordevices(
    cache: Cache,
    client: KubeClient,
    tailnets: Tailnets,
    identity: KnownIdentity,
    settings: Settings,
    now: Callable[[], datetime],
) -> Kind[plans.Observed] | Kind[ObservedProxy]:
    """Return the `Kind` of the operator's own device.

    If the settings ask for an API server proxy, the `Kind` runs that proxy, which has the device. Otherwise the `Kind`
    registers the device, if there is none and an object needs its ID. It has a single key, that of the Secret that
    OPERATOR_SECRET names.
    """
    world = _World(cache, client, tailnets, identity, settings, now)
    name = "OperatorDevice"
    if settings.apiserver_proxy is not ProxyMode.OFF:
        proxy = _ProxyView(world)
        return Kind(
            None,
            proxy.watches,
            proxy.look,
            proxy.decide,
            proxy.refused,
            proxy.acted,
            proxy.reported,
            name=name,
            sources=[*proxy_sources(world.ask)],
        )
    view = _View(world)
    return Kind(None, view.watches, view.look, view.decide, view.refused, view.acted, name=name)


def proxy_sources(ask: Ask) -> Iterator[Source]:
    """Yield Sources of those objects of the API server proxy that don't have the labels of our objects."""
    for resource, key, stored in (
        (SECRET, ask.key, _slim_secret),
        (SERVICEACCOUNT, ask.deployment, only_identity),
        (DEPLOYMENT, ask.own, only_identity),
    ):
        yield Source(Selection(resource, key.namespace, field_selector=f"metadata.name={key.name}"), slim=stored)


def _slim_secret(obj: Object) -> Object:
    """Return the slim form of the Secret of the operator's own device.

    The annotations are left out, because kubectl can have copied the data, with the keys of the device, into one.
    """
    metadata = {name: value for name, value in obj["metadata"].items() if name != "annotations"}
    return slim({**obj, "metadata": metadata})


class _World:
    """The caches, clients and settings from which the facts about the operator's own device come."""

    def __init__(
        self,
        cache: Cache,
        client: KubeClient,
        tailnets: Tailnets,
        identity: KnownIdentity,
        settings: Settings,
        now: Callable[[], datetime],
    ) -> None:
        self.cache = cache
        self.tailnets = tailnets
        self.identity = identity
        self.settings = settings
        self.now = now
        self.ask = ask_of(settings)
        self._client = client

    def pods(self, *, of_statefulset: bool) -> Sequence[Object]:
        """Return the Pods that run the device: if *of_statefulset*, those of the StatefulSet, otherwise all others."""
        found = self.cache.indexed(POD, BY_OWNER, str(self.ask.owner))
        return [pod for pod in found if is_of_statefulset(pod) is of_statefulset]

    def age(self, obj: Object | None) -> float:
        """Return the age of *obj* in seconds; 0 without an object."""
        if obj is None:
            return 0.0
        return (self.now() - datetime.fromisoformat(obj["metadata"]["creationTimestamp"])).total_seconds()

    def keys(self, is_concerned: bool) -> Iterable[Key]:
        """Return the key of the device if *is_concerned* is true, otherwise no key."""
        return (self.ask.key,) if is_concerned else ()

    def keys_of_pod(self, pod: Object) -> Iterable[Key]:
        """Return the key of the device if *pod* runs the device, otherwise no key."""
        return self.keys(owner_of(pod) == self.ask.owner)

    async def auth_keys(self, login: Login) -> Keys | Refusal:
        """Return the auth key that the device needs, or the reason why it can't get one. Raises KubeError."""
        try:
            return await self.tailnets.at(OWN).auth_keys(login)
        except Pending as pending:
            return Keys(awaited=login.in_need, pending=pending)
        except Exception as error:
            if refusal := refusal_of(error):
                return refusal
            raise

    async def own_pod(self) -> Object | None:
        """Return the Pod in which this process runs; None if it runs in none, or can't see it. Raises KubeError."""
        if not self.settings.pod_name:
            return None
        try:
            return await self._client.get(POD, Key(self.settings.namespace, self.settings.pod_name))
        except (NotFound, Denied):
            return None

    async def go_operator(self) -> str:
        """Return the names of the Pods of a Go operator that runs; empty if none does. Raises KubeError."""
        pod = Key(self.settings.namespace, self.settings.pod_name)
        return await predecessor.pods_of_go(self._client, pod) if self.settings.pod_name else ""


class _View:
    """Gathers the facts about the operator's own device while there is no API server proxy."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self._cache = world.cache
        self._identity = world.identity
        self._ask = ask = world.ask
        self._problem = ""  # of the plan that is being carried out
        self.watches: Watches = {
            **dict.fromkeys((INGRESS, SERVICE), self._of_object),
            PROXYGROUP: lambda group: world.keys(is_host(group)),
            SECRET: lambda secret: world.keys(key_of(secret) == ask.config),
            STATEFULSET: lambda statefulset: world.keys(key_of(statefulset) == ask.statefulset),
            DEPLOYMENT: lambda deployment: world.keys(key_of(deployment) == ask.deployment),
            POD: world.keys_of_pod,
            **dict.fromkeys((IDENTITY, TAILSCALE_SERVICE), lambda _: world.keys(True)),
        }

    async def look(self, _key: Key, _obj: Object) -> plans.Observed:
        """Gather the facts about the device."""
        ask, claims = self._ask, self._claims()  # an iterator: often only the first is read
        statefulset = self._cache.get(STATEFULSET, ask.statefulset)
        stored = self._identity.stored()
        lacks = stored.is_known and not stored.node_id
        needed, pending = self._need(claims) if lacks else (next(claims, None) is not None, None)
        return plans.Observed(
            stored,
            needed,
            pending,
            await self._world.go_operator() if needed and lacks else "",
            statefulset,
            self._world.age(statefulset),
            self._cache.get(SECRET, ask.config),
            self._identity.state(),
            any(self._cache.get(each, ask.key) for each in (SECRET_METADATA, SECRET)),
            self._cache.get(DEPLOYMENT, ask.deployment),
            self._world.pods(of_statefulset=False),
        )

    def decide(self, _obj: Object, observed: plans.Observed) -> Decision:
        """Return the plan. If the plan needs an auth key, return the question to the control server for that key."""
        then = partial(self._plan, observed)
        if not plans.registers(self._ask, observed):
            return then()
        login = plans.login(self._ask, observed, self._world.settings)
        return Question(partial(self._world.auth_keys, login), then)

    def acted(self, _obj: Object, observed: plans.Observed, _plan: Plan) -> None:
        """Remember the problem that keeps the operator from getting a device.

        If the operator doesn't register a device now, forget its auth keys.
        """
        self._identity.hindered(self._problem)
        if not plans.registers(self._ask, observed):
            self._world.tailnets.forget(self._ask.owner)

    def refused(self, _observed: plans.Observed, _obj: Object, refusal: Refusal) -> Plan:
        """Remember *refusal* as the problem that keeps the operator from getting a device. Return an empty plan."""
        match refusal.step:
            case Child(obj) | Creation(obj) if refusal.is_taken:
                self._identity.hindered(in_the_way(obj))
            case _:
                self._identity.hindered(refusal.message)
        return Plan()

    def _plan(self, observed: plans.Observed, *keys: Keys | Refusal) -> Plan:
        plan, self._problem, _ = plans.plan(self._ask, observed, self._world.settings, *keys)
        return plan

    def _claims(self) -> Iterator[tuple[str, str]]:
        """Yield the tailnets and labels of the Tailscale Services that valid objects ask for."""
        for group in filter(is_host, self._cache.all(PROXYGROUP)):
            for obj in self._asking(group):
                if claim := claim_in_need(obj, self._world.settings):
                    yield tailnet_of(group), claim.label

    def _asking(self, group: Object) -> Iterator[Object]:
        """Yield the objects that *group* is to expose. A group of type kube-apiserver exposes the Kubernetes API."""
        if any(by_label(group)):
            yield group
            return
        for resource in (INGRESS, SERVICE):
            yield from self._cache.indexed(resource, BY_GROUP, key_of(group).name)

    def _need(self, claims: Iterable[tuple[str, str]]) -> tuple[bool, Exception | None]:
        """Tell whether one of *claims* is on a label in a tailnet that lets the operator have Tailscale Services.

        Headscale has no Tailscale Services, so an operator at Headscale needs no device. If the answer isn't
        known yet, the second result is the exception that a reconcile raises to wait for it.
        """
        pending = None
        for tailnet, label in claims:
            view = self._world.tailnets.service(tailnet, label)
            if view.is_shown:
                return True, None
            pending = pending or view.pending
        return False, pending

    def _of_object(self, obj: Object) -> Iterable[Key]:
        return self._world.keys(claim_in_need(obj, self._world.settings) is not None)


class _ProxyView:
    """Gathers the facts about the API server proxy, and about the operator's own device, which serves it."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self._cache = world.cache
        self._ask = ask = world.ask
        self._like: Object | None = None
        self._missing: MissingCertificate | None = None
        self._problem = ""  # of the plan that is being carried out
        self._unsaid: Sequence[str] = ()  # the messages of that plan that no Event can have
        self._logged: Sequence[str] = ()
        self.watches: Watches = {
            SECRET: lambda secret: world.keys(key_of(secret) in (ask.key, ask.config)),
            DEPLOYMENT: lambda deployment: world.keys(key_of(deployment) in (ask.deployment, ask.own)),
            SERVICEACCOUNT: lambda account: world.keys(key_of(account) == ask.deployment),
            STATEFULSET: lambda statefulset: world.keys(key_of(statefulset) == ask.statefulset),
            POD: world.keys_of_pod,
            DEVICE: lambda device: world.keys(key_of(device) == Key(OWN, device_id_of(self._secrets()))),
        }

    async def look(self, _key: Key, _obj: Object) -> ObservedProxy:
        """Gather the facts about the API server proxy."""
        ask = self._ask
        deployment = self._cache.get(DEPLOYMENT, ask.deployment)
        secrets, pods = self._secrets(), self._world.pods(of_statefulset=False)
        device = device_id_of(secrets)
        return ObservedProxy(
            deployment,
            self._world.age(deployment),
            self._cache.get(SERVICEACCOUNT, ask.deployment),
            self._cache.get(DEPLOYMENT, ask.own),
            await self._placement(),
            secrets,
            pods,
            self._cache.get(STATEFULSET, ask.statefulset),
            self._world.pods(of_statefulset=True),
            "" if deployment else await self._world.go_operator(),
            self._world.tailnets.at(OWN).view(ask.owner, [device] if device else []),
            self._certificate(secrets.state, pods),
        )

    def decide(self, _obj: Object, observed: ObservedProxy) -> Decision:
        """Return the plan, or the question to the control server for the auth key that the plan needs."""
        then = partial(self._plan, observed)
        if not apiserverproxy.can_serve(self._ask, observed, self._world.settings):
            return then()
        login = apiserverproxy.login(self._ask, observed, self._world.settings)
        return Question(partial(self._world.auth_keys, login), then)

    def acted(self, _obj: Object, observed: ObservedProxy, _plan: Plan) -> None:
        """Remember the problem that keeps the operator from getting a device.

        Log once the messages that no Event can have.
        """
        self._hindered(observed, self._problem)
        self._log(self._unsaid)

    def reported(self, _obj: Object, _observed: ObservedProxy, _plan: Plan) -> None:
        """Forget the news that an Event has reported."""
        self._world.tailnets.news_told(self._ask.owner)

    def refused(self, observed: ObservedProxy, _obj: Object, refusal: Refusal) -> Plan:
        """Return the plan that reports *refusal*: a server has refused a step of the proxy's plan."""
        plan, problem, unsaid = apiserverproxy.failed(observed, refusal)
        self._hindered(observed, problem)
        self._log(unsaid)
        return plan

    def _plan(self, observed: ObservedProxy, *keys: Keys | Refusal) -> Plan:
        settings = self._world.settings
        plan, self._problem, self._unsaid = apiserverproxy.plan(self._ask, observed, settings, *keys)
        return plan

    def _log(self, messages: Sequence[str]) -> None:
        """Log *messages*, except for those that the previous call had, too."""
        for message in messages:
            if message not in self._logged:
                log.warning("API server proxy: %s", message)
        self._logged = messages

    def _hindered(self, observed: ObservedProxy, problem: str) -> None:
        """Remember *problem*, which keeps the operator from getting a device; remember none if there is a device.

        Objects that need the device's ID report the problem. It isn't logged here, because an Event or the log has it
        already.
        """
        self._world.identity.hindered("" if observed.device else problem, is_told=True)

    async def _placement(self) -> Object | None:
        """Return the placement of the operator's own Pod, which never changes.

        It doesn't come from the operator's Deployment: during an update, the Deployment is already newer than this
        process.
        """
        if self._like is None and (pod := await self._world.own_pod()):
            self._like = placement(pod)
        return self._like

    def _secrets(self) -> ReplicaSecrets:
        return ReplicaSecrets(*(self._cache.get(SECRET, key) for key in (self._ask.config, self._ask.key)))

    def _certificate(self, state: Object | None, pods: Sequence[Object]) -> ObservedCertificate | None:
        """Return the state of the device's certificate; None if it needs none, or hasn't reported its HTTPS name."""
        device = reported_device(state, pods)
        if state is None or device is None or not device.https_name:
            return None
        now, certificate = loop_time(), certificate_of(state, device.https_name)
        self._missing = missing(self._missing, device.https_name, certificate, now)
        missed_for = None if self._missing is None else now - self._missing.at
        return ObservedCertificate(device.https_name, certificate, self._world.now(), missed_for, has_class=False)
