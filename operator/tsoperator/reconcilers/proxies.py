"""The work that all reconcilers of proxies share: a view of a proxy and its tailnet, its auth keys, its removal."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Protocol, TypeVar

from tsoperator.api.names import FINALIZER, PARENT_CONNECTOR, PARENT_INGRESS, PARENT_SERVICE
from tsoperator.api.objects import (
    CONNECTOR,
    INGRESS,
    POD,
    PROXYCLASS,
    SECRET,
    SERVICE,
    SERVICEMONITOR,
    STATEFULSET,
    Key,
    Object,
    Resource,
    has_finalizer,
    is_deleting,
    key_of,
    uid,
)
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.orphan import ORPHANED_FOR, Orphan, plan_orphan
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.secret import BY_DEVICE, device_of
from tsoperator.proxy.workload import is_removed, login_url, proxy_login
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Mapper
from tsoperator.runtime.ownership import BY_METRICS_OWNER, BY_OWNER, Owner, is_named_after, owned_keys
from tsoperator.runtime.plan import Decision, Plan, Question, Refusal
from tsoperator.runtime.result import Pending
from tsoperator.settings import Settings
from tsoperator.tailnet.refusals import refusal_of
from tsoperator.tailnet.tailnet import OWN, Tailnets
from tsoperator.tailnet.zones import Suffixes
from tsoperator.tsclient.errors import ControlError

log = logging.getLogger(__name__)

_PARENTS = {SERVICE: PARENT_SERVICE, INGRESS: PARENT_INGRESS, CONNECTOR: PARENT_CONNECTOR}


class HasChildren(Protocol):
    """The facts about a parent."""

    @property
    def children(self) -> Children:
        """The objects that the proxy has."""
        ...


Observed = TypeVar("Observed", bound=HasChildren)
Facts_contra = TypeVar("Facts_contra", bound=HasChildren, contravariant=True)


class Decides(Protocol[Facts_contra]):
    """The decisions about one kind of parents; a module of pure functions has them."""

    def owner(self, key: Key, /) -> Owner:
        """Return the owner of the children of the parent named *key*."""
        ...

    def wanted(self, parent: Object, observed: Facts_contra, settings: Settings, /) -> Proxy | Plan:
        """Return the proxy that *parent* should have, or the plan of a parent that is to have none."""
        ...

    def plan(
        self, parent: Object, wanted: Proxy | Plan, observed: Facts_contra, settings: Settings, keys: Keys | Refusal, /
    ) -> Plan:
        """Return what *parent* needs whose *wanted* proxy has these *keys*."""
        ...

    def failed(self, observed: Facts_contra, parent: Object, refusal: Refusal, /) -> Plan:
        """Return the plan that reports a refusal on *parent*."""
        ...


class Proxies:
    """The proxies of the cluster, as the reconcilers of their parents see them."""

    def __init__(
        self,
        cache: Cache,
        applier: Applier,
        tailnets: Tailnets,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        suffixes: Callable[[], Suffixes] = Suffixes,
    ) -> None:
        """*clock* is monotonic. *suffixes* tells which suffixes of MagicDNS names are known."""
        self.cache = cache
        self.settings = settings
        self.suffixes = suffixes
        self._applier = applier
        self._tailnets = tailnets
        self._clock = clock
        self._orphaned: dict[Owner, float] = {}  # when we first saw that the parent was gone; -inf: don't wait
        self._left_behind: dict[Owner, str] = {}  # whose proxies are being removed, and their names in the log
        self._unseen: set[str] = set()  # namespaces that aren't watched, but have proxies
        for resource, owner_type in _PARENTS.items():
            cache.listen_for_deletions(resource, partial(self._note_deletion, owner_type))

    def children(self, owner: Owner) -> Children:
        """Return the children that the proxy of *owner* has."""

        def found(resource: Resource, index: str = BY_OWNER) -> list[Object]:
            labelled = self.cache.indexed(resource, index, str(owner))
            return [obj for obj in labelled if is_named_after(obj, owner.key.name)]

        pods = found(POD)
        return Children(
            services=found(SERVICE),
            statefulsets=found(STATEFULSET),
            secrets=found(SECRET),
            pods=pods,
            metrics=[*found(SERVICE, BY_METRICS_OWNER), *found(SERVICEMONITOR, BY_METRICS_OWNER)],
            overdue=self.overdue(pods),
        )

    def overdue(self, pods: Iterable[Object]) -> dict[str, float]:
        """Return, by UID, how many seconds ago the grace periods of those of *pods* ended that should be gone."""
        ends = {uid(pod): pod["metadata"]["deletionTimestamp"] for pod in pods if is_deleting(pod)}
        late = {pod: (self._applier.now() - datetime.fromisoformat(end)).total_seconds() for pod, end in ends.items()}
        return {pod: seconds for pod, seconds in late.items() if seconds > 0}

    def tailnet(self, name: str, owner: Owner, children: Children, destination: str = "") -> TailnetView:
        """Return how the tailnet called *name* looks to the proxies of *owner*, which may lead to a *destination*.

        A tailnet that is refused to newcomers goes on for an owner that has proxies already.
        """
        ids = [device for secret in children.secrets if (device := device_of(secret, None).id)]
        try:
            view = self._tailnets.at(name).view(owner, ids, destination)
        except Pending as pending:
            return TailnetView(name, pending=pending)
        except ControlError as error:
            return TailnetView(name, refusal=refusal_of(error))
        why = self._elsewhere(name, owner, children) if children.secrets else self._tailnets.refusal(name)
        return replace(view, refusal=Refusal(why)) if why else view

    def _home(self, name: str, owner: Owner, children: Children) -> str:
        """Return the name of the tailnet in which the proxies of *owner* are, which names the one called *name*.

        These differ if a user has added or removed ``spec.tailnet``, which the API server lets them do, although
        devices can't follow. Namespaced objects have no such field. Raises Pending.
        """
        reported = [device_of(secret, None) for secret in children.secrets]
        devices = {device.id: device.fqdn for device in reported if device.id}
        if owner.key.namespace or not devices:
            return name
        return self._tailnets.home(name, login_url(children.secrets), devices)

    def _elsewhere(self, name: str, owner: Owner, children: Children) -> str:
        """Say that the proxies of *owner* are in another tailnet than the one called *name*.

        Return an empty text if they aren't, or as long as nobody knows; new replicas wait for the answer.
        """
        try:
            home = self._home(name, owner, children)
        except Pending:
            return ""
        if home == name:
            return ""
        where = f"Tailnet {home!r}" if home else "the operator's own tailnet"
        return (
            f"its devices are in {where} and can't move to another: set spec.tailnet to what it was, or delete the "
            "object and make it anew"
        )

    def proxy_class(self, name: str) -> Object | None:
        """Return the ProxyClass called *name*, if it is there."""
        return self.cache.get(PROXYCLASS, Key("", name))

    async def auth_keys(self, parent: Object, wanted: Proxy, children: Children) -> Keys | Refusal:
        """Return the auth keys that a *wanted* proxy of *parent* needs, or why it can't have them.

        The *children* are those that are there. Keys are minted if necessary. Raises KubeError.
        """
        login = proxy_login(wanted, children, is_held=has_finalizer(parent, FINALIZER))
        try:
            if login.in_need:
                self._home(wanted.tailnet, wanted.owner, children)
            return await self._tailnets.at(wanted.tailnet).auth_keys(login)
        except Pending as pending:
            return Keys(awaited=login.in_need, pending=pending)
        except Exception as error:
            if refusal := refusal_of(error):
                return refusal
            raise

    def kind(
        self,
        resource: Resource,
        watches: Mapping[Resource, Mapper],
        look: Callable[[Object], Observed],
        decides: Decides[Observed],
        *,
        gone: Callable[[Key], Plan] | None = None,
        said: Callable[[Object, Observed], None] = lambda _obj, _observed: None,
    ) -> Kind[Observed]:
        """Return the kind of a *resource* whose objects have proxies, which need auth keys and are removed with them.

        *said* is called after each report. The other arguments are those of Kind.
        """

        def facts(obj: Object) -> Observed:
            self.found(decides.owner(key_of(obj)))
            return look(obj)

        def decision(obj: Object, observed: Observed) -> Decision:
            wanted = decides.wanted(obj, observed, self.settings)
            then = partial(decides.plan, obj, wanted, observed, self.settings)
            return then(NO_KEYS) if isinstance(wanted, Plan) else self.question(obj, wanted, observed.children, then)

        def reported(obj: Object, observed: Observed, plan: Plan) -> None:
            self.reported(decides.owner(key_of(obj)), plan)
            said(obj, observed)

        def orphan(key: Key) -> Plan:
            return plan_orphan(self.orphan(resource, decides.owner(key)))

        return Kind(resource, watches, facts, decision, decides.failed, gone or orphan, reported=reported)

    def question(
        self, parent: Object, wanted: Proxy, children: Children, then: Callable[[Keys | Refusal], Plan]
    ) -> Question:
        """Return the decision that asks for the auth keys of a *wanted* proxy of *parent* first."""
        return Question(partial(self.auth_keys, parent, wanted, children), then)

    def found(self, owner: Owner) -> None:
        """Note that *owner* is there."""
        self._orphaned.pop(owner, None)
        self._left_behind.pop(owner, None)

    def reported(self, owner: Owner, plan: Plan) -> None:
        """Note that the parent says what there is to say, and forget its *owner* if *plan* releases it."""
        self._tailnets.news_told(owner)
        if plan.release:
            self.forget(owner)

    def forget(self, owner: Owner) -> None:
        """Forget what is remembered for *owner*, which has no proxy any more."""
        self._orphaned.pop(owner, None)
        if name := self._left_behind.pop(owner, ""):
            log.info("%s: removed the proxy that it left behind", name)
        self._tailnets.forget(owner)

    def _note_deletion(self, owner_type: str, parent: Object) -> None:
        """Let the proxy of a *parent* go at once that was deleted although our finalizer was on it.

        The API server looks for finalizers when a deletion begins. It doesn't see one that comes a moment later.
        """
        if has_finalizer(parent, FINALIZER) and not is_deleting(parent):
            self._orphaned[Owner(owner_type, key_of(parent))] = -math.inf

    def orphan(self, resource: Resource, owner: Owner) -> Orphan:
        """Return what is left of the proxy of *owner*, a *resource* that vanished without waiting for our finalizer.

        The proxy stays for `ORPHANED_FOR` seconds, and as long as the parent may exist without our seeing it.
        """
        # Namespaced objects have no spec.tailnet: their proxies are in the operator's own.
        found = Orphan(owner, self.children(owner), tailnet=OWN if resource.namespaced else None)
        if is_removed(found.children):
            self.forget(owner)
            return found
        if not self.cache.sees(resource, owner.key.namespace):
            self._orphaned.pop(owner, None)
            self._warn_unseen(owner.key.namespace)
            return replace(found, due=ORPHANED_FOR)
        now = self._clock()
        left = self._orphaned.setdefault(owner, now) + ORPHANED_FOR - now
        if left <= 0:
            why = "deleted before our finalizer held it" if left == -math.inf else "gone for long"
            self._warn_left_behind(owner, f"{resource.kind} {owner.key}", why)
        return replace(found, due=left)

    def _warn_left_behind(self, owner: Owner, name: str, why: str) -> None:
        """Log once that the proxy of *owner* is being removed, and *why*; the removal takes several steps."""
        if owner not in self._left_behind:
            log.warning("%s: %s, and its proxy was left behind: removing it", name, why)
        self._left_behind[owner] = name

    def parents_of_device(self, device: Object, owner_type: str) -> Iterable[Key]:
        """Return the parents of *owner_type* whose proxies have this device of a tailnet."""
        for secret in self.cache.indexed(SECRET, BY_DEVICE, key_of(device).name):
            yield from owned_keys(secret, owner_type, self.settings.namespace)

    def _warn_unseen(self, namespace: str) -> None:
        if namespace not in self._unseen:
            log.warning("namespace %s isn't watched: the proxies of its objects stay as they are", namespace)
        self._unseen.add(namespace)
