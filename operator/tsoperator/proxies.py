"""What the reconcilers of proxies share: the look at one, its auth keys, and how a decision is carried out."""

from collections.abc import Awaitable, Callable, Mapping

from tsoperator.api.objects import POD, PROXYCLASS, SECRET, SERVICE, SERVICEMONITOR, STATEFULSET, Key, Object, uid
from tsoperator.authkeys import AuthKeys
from tsoperator.desired.children import BY_GROUPED_OWNER, BY_METRICS_OWNER, BY_OWNER, Owner
from tsoperator.desired.plan import Plan
from tsoperator.desired.proxy import Children, Proxy
from tsoperator.kube.errors import Denied, Invalid
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.result import Result
from tsoperator.settings import Settings
from tsoperator.tsclient.advice import trouble
from tsoperator.tsclient.errors import ControlError


class Proxies:
    """The proxies of the cluster, as the reconcilers of their parents see and change them."""

    def __init__(self, cache: Cache, applier: Applier, auth_keys: AuthKeys, settings: Settings) -> None:
        self.cache = cache
        self.settings = settings
        self._applier = applier
        self._auth_keys = auth_keys

    def children(self, owner: Owner) -> Children:
        """Return what there is of the proxy of *owner*."""
        return Children(
            services=self.cache.indexed(SERVICE, BY_OWNER, str(owner)),
            statefulsets=self.cache.indexed(STATEFULSET, BY_OWNER, str(owner)),
            secrets=self.cache.indexed(SECRET, BY_OWNER, str(owner)),
            pods=self.cache.indexed(POD, BY_OWNER, str(owner)),
            metrics=[
                obj
                for resource in (SERVICE, SERVICEMONITOR)
                for obj in self.cache.indexed(resource, BY_METRICS_OWNER, str(owner))
            ],
            grouped=self.cache.indexed(SERVICE, BY_GROUPED_OWNER, str(owner)),
        )

    def proxy_class(self, name: str) -> Object | None:
        """Return the ProxyClass called *name*, if it is there."""
        return self.cache.get(PROXYCLASS, Key("", name))

    async def auth_keys(self, proxy: Proxy, children: Children) -> Mapping[int, str]:
        """Return the auth keys to plan *proxy* with, by ordinal, minted if need be. Raises KubeError, ControlError."""
        return await self._auth_keys.for_proxy(proxy, children, self.settings)

    async def carry_out(
        self, parent: Object, decision: Awaitable[Plan], failed: Callable[[Object, str, str], Plan]
    ) -> Result:
        """Act on the plan that *decision* comes to, and report; on a refusal report what *failed* makes of its words.

        *failed* is given the object, what to say of the refusal, and a reason if there is one that tells more than its
        own.
        Raises KubeError, ControlError: the refusal, too, so that it is tried again.
        """
        try:
            plan = await decision
            parent = await self._applier.apply(parent, plan)
        except (ControlError, Denied, Invalid) as error:
            refused = failed(parent, *trouble(error))
            await self._applier.report(await self._applier.apply(parent, refused), refused)
            raise
        await self._applier.report(parent, plan)
        due = [seconds for seconds in (plan.requeue_after, self._auth_keys.pop_due(uid(parent))) if seconds is not None]
        if plan.release:
            self._auth_keys.forget(uid(parent))
        return Result(min(due, default=None))
