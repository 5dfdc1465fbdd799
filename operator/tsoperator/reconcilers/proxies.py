"""What the reconcilers of proxies share: the look at one, its auth keys, and how a decision is carried out."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from tsoperator.api.objects import (
    POD,
    PROXYCLASS,
    SECRET,
    SERVICE,
    SERVICEMONITOR,
    STATEFULSET,
    Key,
    Object,
    Resource,
    uid,
)
from tsoperator.desired.children import BY_GROUPED_OWNER, BY_METRICS_OWNER, BY_OWNER, Owner, is_named_after
from tsoperator.desired.findings import Finding
from tsoperator.desired.plan import Plan
from tsoperator.desired.proxy import NO_CHILDREN, Children, Proxy, plan_removal, way_out
from tsoperator.kube.errors import Denied, Invalid
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.result import DONE, Result
from tsoperator.settings import Settings
from tsoperator.tailnet.authkeys import AuthKeys
from tsoperator.tailnet.upkeep import Upkeep
from tsoperator.tsclient.advice import trouble
from tsoperator.tsclient.errors import ControlError

log = logging.getLogger(__name__)

ORPHANED_FOR = 3600.0
"""Seconds for which a proxy outlives a parent that went without a word: a restore from a backup brings that back."""


class Proxies:
    """The proxies of the cluster, as the reconcilers of their parents see and change them."""

    def __init__(
        self,
        cache: Cache,
        applier: Applier,
        auth_keys: AuthKeys,
        upkeep: Upkeep,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*clock* is monotonic."""
        self.cache = cache
        self.settings = settings
        self._applier = applier
        self._auth_keys = auth_keys
        self._upkeep = upkeep
        self._clock = clock
        self._orphaned: dict[Owner, float] = {}  # when it was first found to be gone
        self._unknown: set[str] = set()  # namespaces with parents of which nothing is known

    def children(self, owner: Owner) -> Children:
        """Return what there is of the proxy of *owner* alone."""

        def found(resource: Resource, index: str = BY_OWNER) -> list[Object]:
            labelled = self.cache.indexed(resource, index, str(owner))
            return [obj for obj in labelled if is_named_after(obj, owner.key.name)]

        return Children(
            services=found(SERVICE),
            statefulsets=found(STATEFULSET),
            secrets=found(SECRET),
            pods=found(POD),
            metrics=[*found(SERVICE, BY_METRICS_OWNER), *found(SERVICEMONITOR, BY_METRICS_OWNER)],
            grouped=self.cache.indexed(SERVICE, BY_GROUPED_OWNER, str(owner)),
        )

    def keep(self, owner: Owner) -> None:
        """Take note that *owner* is there."""
        self._orphaned.pop(owner, None)

    async def clear_away(self, resource: Resource, owner: Owner) -> Result:
        """Take away, step by step, the proxy of *owner*, a *resource* that has been gone for long without our
        finalizer's being waited for. Where it can't be seen, its namespace not being watched, its proxy stays.
        Raises KubeError, ControlError.
        """
        children = self.children(owner)
        if children == replace(NO_CHILDREN, grouped=children.grouped):
            self.keep(owner)
            return DONE
        if not self.cache.sees(resource, owner.key.namespace):
            self.keep(owner)
            self._say_unknown(owner.key.namespace)
            return Result(ORPHANED_FOR)
        now = self._clock()
        left = self._orphaned.setdefault(owner, now) + ORPHANED_FOR - now
        if left > 0:
            return Result(left)
        log.warning("%s has been gone for long, and its proxy was left behind: taking that away", owner)
        plan = plan_removal(children)
        await self._applier.apply({}, plan)
        return Result(plan.requeue_after)

    def _say_unknown(self, namespace: str) -> None:
        if namespace not in self._unknown:
            log.warning("namespace %s isn't watched: the proxies of its objects stay as they are", namespace)
        self._unknown.add(namespace)

    def proxy_class(self, name: str) -> Object | None:
        """Return the ProxyClass called *name*, if it is there."""
        return self.cache.get(PROXYCLASS, Key("", name))

    async def findings(self, proxy: Proxy, children: Children) -> Sequence[Finding]:
        """Make the devices of *proxy* right, and its name free before it asks for it; return what there is to tell."""
        return await self._upkeep.look_after(proxy, children)

    async def auth_keys(self, proxy: Proxy, children: Children) -> Mapping[int, str]:
        """Return the auth keys to plan *proxy* with, by ordinal, minted if need be. Raises KubeError, ControlError."""
        return await self._auth_keys.for_proxy(proxy, children, self.settings)

    async def carry_out(
        self,
        parent: Object,
        decision: Awaitable[Plan],
        failed: Callable[[Object, str, str], Plan],
        acted: Callable[[Plan], None] | None = None,
    ) -> Result:
        """Act on the plan that *decision* comes to, and report; on a refusal report what *failed* makes of its words.

        *failed* is given the object, what to say of the refusal, and a reason if there is one that tells more than its
        own. *acted* is told the plan once it is carried out, whether or not that can be reported.
        Raises KubeError, ControlError: the refusal, too, so that it is tried again.
        """
        plan = Plan()
        try:
            plan = await decision
            parent = await self._applier.apply(parent, plan)
        except (ControlError, Denied, Invalid) as error:
            message, reason = trouble(error)
            hint = f"; {way_out(plan)}" if plan.devices and isinstance(error, ControlError) else ""
            refused = failed(parent, f"{message}{hint}", reason)
            await self._applier.report(await self._applier.apply(parent, refused), refused)
            raise
        if acted is not None:
            acted(plan)
        await self._applier.report(parent, plan)
        due = [seconds for seconds in (plan.requeue_after, self._auth_keys.pop_due(uid(parent))) if seconds is not None]
        if plan.release:
            self._auth_keys.forget(uid(parent))
        return Result(min(due, default=None))
