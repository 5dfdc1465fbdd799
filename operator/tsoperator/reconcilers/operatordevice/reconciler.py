"""Gathers the facts about the operator's own device that `plan` needs."""

from collections.abc import Callable, Iterable, Mapping
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
    Key,
    Object,
    Resource,
    key_of,
)
from tsoperator.group.proxygroup import BY_GROUP
from tsoperator.kube.client import KubeClient
from tsoperator.proxy.login import Keys, Login
from tsoperator.reconcilers.operatordevice import plan as plans
from tsoperator.reconcilers.operatordevice.ask import ask_of, exposes, group_in_need
from tsoperator.runtime import predecessor
from tsoperator.runtime.apply import utc_now
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.plan import Child, Creation, Decision, Plan, Question, Refusal
from tsoperator.runtime.result import Pending
from tsoperator.settings import Settings
from tsoperator.tailnet.identity import KnownIdentity
from tsoperator.tailnet.operatorid import OperatorIdentity
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
            IDENTITY: lambda _: self._keys(True),
        }

    async def look(self, _key: Key, _obj: Object) -> plans.Observed:
        """Gather the facts about the device. The Secret is read only if something needs the ID."""
        needed, ask = self._is_needed(), self._ask
        statefulset = self._cache.get(STATEFULSET, ask.statefulset)
        stored = self._identity.stored() if needed else OperatorIdentity()
        return plans.Observed(
            stored,
            needed,
            await self._go_operator() if needed and stored.is_known and not stored.node_id else "",
            statefulset,
            self._age(statefulset) if statefulset else 0.0,
            self._cache.get(SECRET, ask.config),
            self._identity.state(),
            any(self._cache.get(each, ask.key) for each in (SECRET_METADATA, SECRET)),
        )

    def decide(self, _obj: Object, observed: plans.Observed) -> Decision:
        """Return the plan, or the question for the auth key that it needs."""
        then = partial(self._plan, observed)
        if not plans.registers(self._ask, observed):
            return then()
        return Question(partial(self._auth_keys, plans.login(self._ask, observed, self._settings)), then)

    def acted(self, _obj: Object, observed: plans.Observed, _plan: Plan) -> None:
        """Say what keeps the operator from getting a device; forget the auth keys of a device that is registered."""
        self._identity.hindered(self._problem)
        if not plans.registers(self._ask, observed):
            self._tailnets.forget(self._ask.owner)

    def refused(self, _observed: plans.Observed, _obj: Object, refusal: Refusal) -> Plan:
        """Say why a step was refused."""
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

    def _is_needed(self) -> bool:
        groups = [key_of(each).name for each in self._cache.all(PROXYGROUP) if exposes(each)]
        named = (each for name in groups for kind in (INGRESS, SERVICE) for each in self._named(kind, name))
        return any(group_in_need(each, self._settings) for each in named)

    def _named(self, resource: Resource, group: str) -> list[Object]:
        return self._cache.indexed(resource, BY_GROUP, group)

    def _age(self, obj: Object) -> float:
        return (self._now() - datetime.fromisoformat(obj["metadata"]["creationTimestamp"])).total_seconds()

    def _keys(self, is_concerned: bool) -> Iterable[Key]:
        return (self._ask.key,) if is_concerned else ()

    def _of_object(self, obj: Object) -> Iterable[Key]:
        return self._keys(bool(group_in_need(obj, self._settings)))

    def _of_child(self, child: Object) -> Iterable[Key]:
        return self._keys(key_of(child) in (self._ask.statefulset, self._ask.config))
