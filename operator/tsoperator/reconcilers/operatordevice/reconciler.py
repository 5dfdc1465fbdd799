"""Gathers the facts about the operator's own device that `plan` needs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial

from tsoperator.api.objects import (
    IDENTITY,
    INGRESS,
    PROXYGROUP,
    SECRET,
    SECRET_METADATA,
    SERVICE,
    STATEFULSET,
    TAILSCALE_SERVICE,
    Key,
    Object,
    Resource,
    key_of,
)
from tsoperator.group.proxygroup import BY_GROUP
from tsoperator.kube.client import KubeClient
from tsoperator.proxy.login import Keys, Login
from tsoperator.reconcilers.hosting import tailnet_of
from tsoperator.reconcilers.operatordevice import plan as plans
from tsoperator.reconcilers.operatordevice.ask import ask_of, claim_in_need, exposes
from tsoperator.runtime import predecessor
from tsoperator.runtime.apply import utc_now
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.plan import Child, Creation, Decision, Plan, Question, Refusal
from tsoperator.runtime.result import Pending
from tsoperator.settings import Settings
from tsoperator.tailnet.identity import KnownIdentity
from tsoperator.tailnet.refusals import refusal_of
from tsoperator.tailnet.tailnet import OWN, Tailnets


def operatordevices(
    cache: Cache,
    client: KubeClient,
    tailnets: Tailnets,
    identity: KnownIdentity,
    settings: Settings,
    now: Callable[[], datetime] = utc_now,
) -> Kind[plans.Observed]:
    """Return the `Kind` that registers the operator's own device, if an object needs its ID and there is none.

    It has a single key, that of the Secret that OPERATOR_SECRET names.
    """
    view = _View(cache, client, tailnets, identity, settings, now)
    return Kind(None, view.watches, view.look, view.decide, view.refused, view.acted, name="OperatorDevice")


class _View:
    """Gathers the facts about the operator's own device."""

    def __init__(
        self,
        cache: Cache,
        client: KubeClient,
        tailnets: Tailnets,
        identity: KnownIdentity,
        settings: Settings,
        now: Callable[[], datetime],
    ) -> None:
        self._cache = cache
        self._client = client
        self._tailnets = tailnets
        self._identity = identity
        self._settings = settings
        self._now = now
        self._ask = ask_of(settings)
        self._problem = ""  # of the plan that is being carried out
        self.watches: Mapping[Resource, Mapper] = {
            **dict.fromkeys((INGRESS, SERVICE), self._of_object),
            PROXYGROUP: lambda group: self._keys(exposes(group)),
            **dict.fromkeys((SECRET, STATEFULSET), self._of_child),
            **dict.fromkeys((IDENTITY, TAILSCALE_SERVICE), lambda _: self._keys(True)),
        }

    async def look(self, _key: Key, _obj: Object) -> plans.Observed:
        """Gather the facts about the device."""
        ask, claims = self._ask, self._claims()  # not all of them: there may be hundreds
        statefulset = self._cache.get(STATEFULSET, ask.statefulset)
        stored = self._identity.stored()
        lacks = stored.is_known and not stored.node_id
        needed, pending = self._need(claims) if lacks else (next(claims, None) is not None, None)
        return plans.Observed(
            stored,
            needed,
            pending,
            await self._go_operator() if needed and lacks else "",
            statefulset,
            self._age(statefulset) if statefulset else 0.0,
            self._cache.get(SECRET, ask.config),
            self._identity.state(),
            any(self._cache.get(each, ask.key) for each in (SECRET_METADATA, SECRET)),
        )

    def decide(self, _obj: Object, observed: plans.Observed) -> Decision:
        """Return the plan. If the plan needs an auth key, return the question to the control server for that key."""
        then = partial(self._plan, observed)
        if not plans.registers(self._ask, observed):
            return then()
        return Question(partial(self._auth_keys, plans.login(self._ask, observed, self._settings)), then)

    def acted(self, _obj: Object, observed: plans.Observed, _plan: Plan) -> None:
        """Record the problem that keeps the operator from getting a device.

        Forget the auth keys of a device that is registered.
        """
        self._identity.hindered(self._problem)
        if not plans.registers(self._ask, observed):
            self._tailnets.forget(self._ask.owner)

    def refused(self, _observed: plans.Observed, _obj: Object, refusal: Refusal) -> Plan:
        """Record why a step was refused, as the problem that keeps the operator from getting a device."""
        match refusal.step:
            case Child(obj) | Creation(obj) if refusal.is_taken:
                self._identity.hindered(plans.in_the_way(obj))
            case _:
                self._identity.hindered(refusal.message)
        return Plan()

    def _plan(self, observed: plans.Observed, *keys: Keys | Refusal) -> Plan:
        plan, self._problem = plans.plan(self._ask, observed, self._settings, *keys)
        return plan

    async def _auth_keys(self, login: Login) -> Keys | Refusal:
        """Return the auth key that the device needs, or the reason why it can't get one. Raises KubeError."""
        try:
            return await self._tailnets.at(OWN).auth_keys(login)
        except Pending as pending:
            return Keys(awaited=login.in_need, pending=pending)
        except Exception as error:
            if refusal := refusal_of(error):
                return refusal
            raise

    async def _go_operator(self) -> str:
        """Return the names of the Pods of a Go operator that runs; empty if none does. Raises KubeError."""
        pod = Key(self._settings.namespace, self._settings.pod_name)
        return await predecessor.pods_of_go(self._client, pod) if self._settings.pod_name else ""

    def _claims(self) -> Iterator[tuple[str, str]]:
        """Yield the tailnets and labels of the Tailscale Services that valid objects ask for."""
        for group in filter(exposes, self._cache.all(PROXYGROUP)):
            for resource in (INGRESS, SERVICE):
                for obj in self._cache.indexed(resource, BY_GROUP, key_of(group).name):
                    if claim := claim_in_need(obj, self._settings):
                        yield tailnet_of(group), claim.label

    def _need(self, claims: Iterable[tuple[str, str]]) -> tuple[bool, Exception | None]:
        """Tell whether one of *claims* is on a label in a tailnet that lets the operator have Tailscale Services.

        Headscale has no Tailscale Services, so an operator at Headscale needs no device. If the answer isn't
        known yet, the second result is the exception that a reconcile raises to wait for it.
        """
        pending = None
        for tailnet, label in claims:
            view = self._tailnets.service(tailnet, label)
            if view.is_shown:
                return True, None
            pending = pending or view.pending
        return False, pending

    def _age(self, obj: Object) -> float:
        return (self._now() - datetime.fromisoformat(obj["metadata"]["creationTimestamp"])).total_seconds()

    def _keys(self, is_concerned: bool) -> Iterable[Key]:
        return (self._ask.key,) if is_concerned else ()

    def _of_object(self, obj: Object) -> Iterable[Key]:
        return self._keys(claim_in_need(obj, self._settings) is not None)

    def _of_child(self, child: Object) -> Iterable[Key]:
        return self._keys(key_of(child) in (self._ask.statefulset, self._ask.config))
