"""The work that the reconcilers of kinds with proxies share: facts about a proxy, its auth keys, and its removal."""

import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from inspect import isawaitable
from typing import Generic, Protocol, TypeVar

from tsoperator.api.names import FINALIZER
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
    has_finalizer,
    is_deleting,
    key_of,
    spec_text,
    uid,
)
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.orphan import ORPHANED_FOR, Orphan, plan_orphan
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.secret import BY_DEVICE, device_of, reported_id_of
from tsoperator.proxy.workload import is_removed, login_url, proxy_login
from tsoperator.runtime.apply import Applier
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.ownership import BY_METRICS_OWNER, BY_OWNER, OWNER_TYPES, Owner, is_named_after, owned_keys
from tsoperator.runtime.plan import Decision, Plan, Question, Refusal
from tsoperator.runtime.result import Pending
from tsoperator.settings import Settings
from tsoperator.tailnet.refusals import refusal_of
from tsoperator.tailnet.tailnet import OWN, Tailnets
from tsoperator.tailnet.zones import Suffixes
from tsoperator.tsclient.errors import ControlError

log = logging.getLogger(__name__)


class HasChildren(Protocol):
    """Facts about a parent that include the children of its proxy."""

    @property
    def children(self) -> Children:
        """The children that the proxy has now."""
        ...


Ask = TypeVar("Ask")
Observed = TypeVar("Observed", bound=HasChildren)
Ask_contra = TypeVar("Ask_contra", contravariant=True)
Observed_contra = TypeVar("Observed_contra", bound=HasChildren, contravariant=True)


@dataclass(frozen=True, slots=True)
class Seen(Generic[Ask, Observed]):
    """The parsed parent *ask*, and *observed*: all other facts on which the plan for the parent depends."""

    ask: Ask
    observed: Observed


class Decides(Protocol[Ask_contra, Observed_contra]):
    """The functions that decide about one kind of parents, such as those of a module `plan`."""

    def wanted(self, ask: Ask_contra, observed: Observed_contra, settings: Settings, /) -> Proxy | Plan:
        """Return the proxy that a parent should have, or a plan if it needs no proxy or can't have one."""
        ...

    def plan(
        self,
        ask: Ask_contra,
        wanted: Proxy | Plan,
        observed: Observed_contra,
        settings: Settings,
        keys: Keys | Refusal,
        /,
    ) -> Plan:
        """Return the plan for a parent.

        *wanted* is the result of the function `wanted`, and *keys* are the auth keys of the replicas.
        """
        ...

    def failed(self, ask: Ask_contra, observed: Observed_contra, refusal: Refusal, /) -> Plan:
        """Return the plan that reports a refusal on a parent."""
        ...


@dataclass(slots=True)
class _Vanished:
    """A parent that is gone, but whose proxy is still there.

    *since* is the time at which the operator noticed that the parent is gone; it is -inf if the proxy can be removed at
    once. *name* is the parent's name in the log; it is empty until the removal of the proxy begins.
    """

    since: float
    name: str = ""


class Proxies:
    """Collects the facts about proxies, mints their auth keys, and removes orphans, for the reconcilers of parents."""

    def __init__(
        self,
        cache: Cache,
        applier: Applier,
        tailnets: Tailnets,
        settings: Settings,
        clock: Callable[[], float] = loop_time,
        suffixes: Callable[[], Suffixes] = Suffixes,
    ) -> None:
        """*clock* is monotonic. *suffixes* returns the known suffixes of MagicDNS names."""
        self.cache = cache
        self.settings = settings
        self.suffixes = suffixes
        self._applier = applier
        self._tailnets = tailnets
        self._clock = clock
        self._vanished: dict[Owner, _Vanished] = {}  # not a Memory, because these parents are gone
        self._unseen: set[str] = set()  # namespaces that aren't watched, but have proxies
        for resource, owner_type in OWNER_TYPES.items():
            cache.listen_for_deletions(resource, partial(self._note_deletion, owner_type))

    def children(self, owner: Owner) -> Children:
        """Return the children that the proxy of *owner* has."""
        owned = str(owner)

        def found(resource: Resource, index: str = BY_OWNER) -> list[Object]:
            labelled = self.cache.indexed(resource, index, owned)
            return [obj for obj in labelled if is_named_after(obj, owner)]

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
        """Return how many seconds ago the grace periods of *pods* ended, by the UID of each Pod.

        The result leaves out a Pod that nobody deletes, or whose grace period hasn't ended yet.
        """
        ends = {uid(pod): pod["metadata"]["deletionTimestamp"] for pod in pods if is_deleting(pod)}
        late = {pod: (self._applier.now() - datetime.fromisoformat(end)).total_seconds() for pod, end in ends.items()}
        return {pod: seconds for pod, seconds in late.items() if seconds > 0}

    def tailnet(self, name: str, owner: Owner, children: Children, destination: str = "") -> TailnetView:
        """Return the facts about the tailnet called *name* for the proxies of *owner*, which have these *children*.

        *destination* is the device to which the proxies lead, if they lead to one. The facts contain a refusal if the
        operator can't use the tailnet, if the existing proxies are in another tailnet, or if there are no proxies yet
        and the tailnet accepts no new ones.
        """
        ids = [device for secret in children.secrets if (device := reported_id_of(secret))]
        try:
            view = self._tailnets.at(name).view(owner, ids, destination)
        except Pending as pending:
            return TailnetView(name, pending=pending)
        except ControlError as error:
            return TailnetView(name, refusal=refusal_of(error))
        why = self._elsewhere(name, owner, children) if children.secrets else self._tailnets.refusal(name)
        return replace(view, refusal=Refusal(why)) if why else view

    def _home(self, name: str, owner: Owner, children: Children) -> str:
        """Return the name of the tailnet in which the proxies of *owner* are; *name* is the one in the owner's spec.

        The two names differ if a user has added or removed ``spec.tailnet``. The API server allows that, although
        devices can't move. Namespaced objects have no such field. Raises Pending while the tailnet isn't known.
        """
        reported = [device_of(secret, None) for secret in children.secrets]
        devices = {device.id: device.fqdn for device in reported if device.id}
        if owner.key.namespace or not devices:
            return name
        return self._tailnets.home(name, login_url(children.secrets), devices)

    def _elsewhere(self, name: str, owner: Owner, children: Children) -> str:
        """Return a message if the proxies of *owner* are in another tailnet than the one called *name*.

        Return an empty text if they aren't, or if the operator doesn't know this yet. New replicas wait until it does.
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
        """Return the ProxyClass called *name*; None if there is none."""
        return self.cache.get(PROXYCLASS, Key("", name))

    async def auth_keys(self, parent: Object, wanted: Proxy, children: Children) -> Keys | Refusal:
        """Return the auth keys that a *wanted* proxy of *parent* needs, or the reason why it can't get them.

        *children* are its existing children. Keys are minted if necessary. Raises KubeError.
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
        watches: Watches,
        parse: Callable[[Object, Settings], Ask],
        look: Callable[[Ask], Observed | Awaitable[Observed]],
        decides: Decides[Ask, Observed],
        *,
        left: Callable[[Owner], Plan] | None = None,
    ) -> Kind[Seen[Ask, Observed] | Plan]:
        """Return the `Kind` of a *resource* whose objects have proxies: it mints auth keys, and removes orphans.

        *parse* parses an object that exists, and *look* gathers the facts about it. *left* returns the plan that
        removes the leftovers of an owner that is gone; by default, the plan removes the owner's proxy.
        """
        type_ = OWNER_TYPES[resource]

        def orphan(owner: Owner) -> Plan:
            return plan_orphan(self.orphan(resource, owner))

        async def seen(key: Key, obj: Object) -> Seen[Ask, Observed] | Plan:
            if not obj:
                return (left or orphan)(Owner(type_, key))
            self._vanished.pop(Owner(type_, key), None)
            ask = parse(obj, self.settings)
            looked = look(ask)
            return Seen(ask, await looked if isawaitable(looked) else looked)

        def decision(obj: Object, seen: Seen[Ask, Observed] | Plan) -> Decision:
            if isinstance(seen, Plan):
                return seen
            wanted = decides.wanted(seen.ask, seen.observed, self.settings)
            then = partial(decides.plan, seen.ask, wanted, seen.observed, self.settings)
            if isinstance(wanted, Plan):
                return then(NO_KEYS)
            return Question(partial(self.auth_keys, obj, wanted, seen.observed.children), then)

        def refused(seen: Seen[Ask, Observed] | Plan, obj: Object, refusal: Refusal) -> Plan:
            if isinstance(seen, Plan):
                return Plan()
            return decides.failed(parse(obj, self.settings), seen.observed, refusal)  # the status may be newer now

        def reported(obj: Object, seen: Seen[Ask, Observed] | Plan, plan: Plan) -> None:
            if not isinstance(seen, Plan):
                self.reported(Owner(type_, key_of(obj)), plan)

        return Kind(resource, watches, seen, decision, refused, reported=reported)

    def reported(self, owner: Owner, plan: Plan) -> None:
        """Forget the news about *owner* that *plan* has reported to the user.

        A *plan* that isn't whole, and has no status, hasn't reported any. If *plan* has taken our finalizer off the
        parent, the parent has no proxy any more; forget the *owner*, too.
        """
        if plan.whole or plan.status is not None:
            self._tailnets.news_told(owner)
        if plan.release == FINALIZER:
            self.forget(owner)

    def collected(self, owner: Owner) -> Plan:
        """Forget an *owner* that is gone, and return an empty plan: the garbage collector removes its children."""
        self.forget(owner)
        return Plan()

    def forget(self, owner: Owner) -> None:
        """Forget the *owner*, which has no proxy any more."""
        if (vanished := self._vanished.pop(owner, None)) and vanished.name:
            log.info("%s: removed the proxy that it left behind", vanished.name)
        self._tailnets.forget(owner)

    def _note_deletion(self, owner_type: str, parent: Object) -> None:
        """Remember *parent* if it was deleted although it has our finalizer, so that its proxy is removed at once.

        *parent* is in its final state. The API server looks for finalizers when a deletion begins. It ignores a
        finalizer that is added a moment later.
        """
        if has_finalizer(parent, FINALIZER) and not is_deleting(parent):
            self._vanished[Owner(owner_type, key_of(parent))] = _Vanished(-math.inf)

    def orphan(self, resource: Resource, owner: Owner) -> Orphan:
        """Return the proxy that *owner*, an object of *resource*, left behind without waiting for our finalizer.

        The proxy stays for `ORPHANED_FOR` seconds. It stays longer if the operator doesn't watch the parent's
        namespace, because the parent perhaps exists there.
        """
        # Namespaced objects have no spec.tailnet: their proxies are in the operator's own.
        found = Orphan(owner, self.children(owner), tailnet=OWN if resource.namespaced else None)
        if is_removed(found.children):
            self.forget(owner)
            return found
        if not self.cache.sees(resource, owner.key.namespace):
            self._vanished.pop(owner, None)
            self._warn_unseen(owner.key.namespace)
            return replace(found, due=ORPHANED_FOR)
        now = self._clock()
        vanished = self._vanished.setdefault(owner, _Vanished(now))
        left = vanished.since + ORPHANED_FOR - now
        if left <= 0 and not vanished.name:  # warn once: the removal takes several reconciles
            vanished.name = f"{resource.kind} {owner.key}"
            why = "deleted before our finalizer held it" if left == -math.inf else "gone for long"
            log.warning("%s: %s, and its proxy was left behind: removing it", vanished.name, why)
        return replace(found, due=left)

    def naming(self, resource: Resource, field: str, default: str = "") -> Callable[[Object], list[Key]]:
        """Return the mapper from an object to those objects of *resource* that name it in a *field* of their specs.

        An object without that field names *default*.
        """

        def keys(named: Object) -> list[Key]:
            name = key_of(named).name
            return [key_of(each) for each in self.cache.all(resource) if (spec_text(each, field) or default) == name]

        return keys

    def parents_of_device(self, device: Object, owner_type: str) -> Iterable[Key]:
        """Return the keys of the parents of *owner_type* to whose proxies *device* belongs."""
        for secret in self.cache.indexed(SECRET, BY_DEVICE, key_of(device).name):
            yield from owned_keys(secret, owner_type, self.settings.namespace)

    def _warn_unseen(self, namespace: str) -> None:
        if namespace not in self._unseen:
            log.warning("namespace %s isn't watched: the proxies of its objects stay as they are", namespace)
        self._unseen.add(namespace)
