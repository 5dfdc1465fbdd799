"""Tries the credentials of Tailnets, and registers the tailnets that can be used."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tsoperator.api.names import PROXY_GROUP
from tsoperator.api.objects import (
    INGRESS,
    PROXYGROUP,
    SECRET,
    SECRET_METADATA,
    SERVICE,
    TAILNET,
    TAILNET_USERS,
    TAILSCALE_SERVICE,
    Key,
    Object,
    annotations,
    has_finalizer,
    is_deleting,
    key_of,
    resource_of,
    spec_text,
    uid,
)
from tsoperator.api.tailscaleservice import service_name
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.tailnet import Tailnet
from tsoperator.group.claims import finalizer_of, label_of
from tsoperator.kube.errors import NotFound
from tsoperator.proxy.advice import is_headscales
from tsoperator.proxy.secret import device_of, login_url_of
from tsoperator.reconcilers.tailnet import plan as plans
from tsoperator.reconcilers.tailnet.plan import Observed
from tsoperator.reconcilers.tailnet.probe import probe
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.clock import loop_time
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.memory import Memory
from tsoperator.runtime.ownership import BY_OWNER, OWNER_TYPES, Owner
from tsoperator.runtime.plan import Plan, Refusal
from tsoperator.tailnet.credentials import Given, credentials, login_url, secret_name, violation
from tsoperator.tailnet.factory import TailnetFactory
from tsoperator.tailnet.tailnet import Tailnets
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.oauth import ClientCredentials, Credentials

_UNREAD: Final = 5.0  # s until the operator looks again whether Tailscale Services have been read


class _Basis(NamedTuple):
    """The basis of a judgement about a Tailnet: the Tailnet's UID, its control server's URL, and its Secret.

    *version* is that of the Secret; it is empty if there is no Secret.
    """

    uid: str
    url: str
    secret: str
    version: str


@dataclass(frozen=True, slots=True)
class _Judged:
    """A judgement about a Tailnet: its *basis*, and why the Tailnet can't be used, if it can't.

    The credentials are tried again at the time *until*. *client* and *credentials* are those that were tried; None
    if the Secret gave no credentials.
    """

    basis: _Basis
    refusal: Refusal | None
    until: float
    client: TailnetClient | None
    credentials: ClientCredentials | None


@dataclass(slots=True)
class _Known:
    """The facts about a Tailnet that are remembered.

    *judged* is the latest judgement, and *proved* the basis of the latest good one. *is_held* becomes False at each
    look at the Tailnet. It becomes True when the operator has carried out the steps of the plan, so that the Tailnet
    has our finalizer if the plan puts it on.
    """

    judged: _Judged | None = None
    proved: _Basis | None = None
    is_held: bool = False


def tailnet_kind(
    cache: Cache,
    tailnets: Tailnets,
    factory: TailnetFactory,
    operator_id: Callable[[], str],
    clock: Callable[[], float] = loop_time,
) -> Kind[Observed]:
    """Return the `Kind` of Tailnets, which tries their credentials.

    It registers the tailnet of each Tailnet with good credentials. The registration ends when the Tailnet is gone, or
    when it is being deleted and nothing needs it any more. *operator_id* returns the ID by which the operator owns
    Tailscale Services. *clock* counts seconds and never goes back.
    """
    view = _View(cache, tailnets, factory, operator_id, clock)

    watches: Watches = {
        TAILNET: lambda tailnet: (key_of(tailnet),),
        SECRET_METADATA: view.keys_of_secret,
        **dict.fromkeys(TAILNET_USERS, view.keys_of_user),
        TAILSCALE_SERVICE: view.keys_of_service,
    }
    return Kind(TAILNET, watches, view.look, plans.plan, view.refused, view.register, view.reported)


class _View:
    """Looks at Tailnets, tries their credentials, and registers the tailnets that can be used."""

    def __init__(
        self,
        cache: Cache,
        tailnets: Tailnets,
        factory: TailnetFactory,
        operator_id: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._operator_id = operator_id
        self._tailnets = tailnets
        self._factory = factory
        self._clock = clock
        self._memory = Memory[_Known](cache)

    def _known(self, obj: Object) -> _Known:
        """Return the remembered facts about the Tailnet *obj*."""
        known = self._memory.get(obj) or _Known()
        self._memory.note(obj, known)
        return known

    def refused(self, _observed: Observed, obj: Object, refusal: Refusal) -> Plan:
        """Return the plan that reports a refusal on *obj*.

        A Tailnet without our finalizer accepts no new proxies.
        """
        if not self._known(obj).is_held:
            self._tailnets.refuse(key_of(obj).name, refusal.message)
        return plans.failed(obj, refusal)

    def register(self, obj: Object, _observed: Observed, plan: Plan) -> None:
        """Register the tailnet of *obj* by the latest judgement, after the operator has carried out *plan*.

        A *plan* without a refusal has put our finalizer on *obj*. If *plan* has a refusal, the tailnet accepts no new
        proxies.
        """
        if obj:
            self._known(obj).is_held = True
            self._register(obj, plans.refusal(plan))

    def reported(self, obj: Object, _observed: Observed, plan: Plan) -> None:
        """End the registration of the Tailnet *obj* if *plan* takes our finalizer off it."""
        if obj and plan.release:
            self._memory.note(obj, None)
            self._tailnets.unregister(key_of(obj).name)

    async def look(self, key: Key, obj: Object) -> Observed:
        """Gather the facts about the Tailnet *obj*, and try its credentials if it is time.

        Unregister the tailnet if the Tailnet is gone.
        """
        if not obj:
            self._tailnets.unregister(key.name)
            return Observed()
        self._known(obj).is_held = False
        found = [*self._users(key.name), *(self._inhabitants(key.name) if is_deleting(obj) else ())]
        users = [f"{user['kind']} {key_of(user).name}" for user in found]
        if is_deleting(obj):
            users += self._services(key.name)
        strays = [*self._strays(key.name)] if is_deleting(obj) else []
        users += [f"{each['kind']} {key_of(each)}" for each in strays]
        if plans.is_idle(obj, users):
            return Observed()
        judged = await self._judge(obj)
        seconds = max(judged.until - self._clock(), 0.0)
        awaits_change = judged.refusal is not None and judged.refusal.requeue_after is None
        if strays:
            return Observed(judged.refusal, users, min(seconds, _UNREAD))
        return Observed(judged.refusal, users, None if awaits_change else seconds)

    async def _judge(self, obj: Object) -> _Judged:
        """Return the judgement on the Tailnet *obj*; try its credentials if they changed, or if it is time."""
        tailnet, key = Tailnet.parse(obj), Key(self._factory.settings.namespace, secret_name(obj))
        url = "" if isinstance(tailnet, Invalid) else login_url(tailnet)
        metadata = self._cache.get(SECRET_METADATA, key)
        version = metadata["metadata"]["resourceVersion"] if metadata is not None else ""
        basis = _Basis(uid(obj), url, key.name, version)
        last, wrong = self._known(obj).judged, violation(tailnet)
        if wrong is None and last is not None and last.basis == basis and self._clock() < last.until:
            return last
        judged = self._remembered(basis, wrong) if wrong else await self._tried(obj, basis, key)
        known = self._known(obj)
        known.judged = judged
        if judged.refusal is None:
            known.proved = basis
        return judged

    async def _tried(self, obj: Object, basis: _Basis, key: Key) -> _Judged:
        """Try the credentials in the Secret named *key*, and return the judgement on them."""
        given = credentials(key, await self._secret(key))
        if isinstance(given, Refusal):
            return self._remembered(basis, given)
        found = self._credentials(given)
        client = self._factory.connect(basis.url, found, f"Secret {key}")
        shown = await probe(client)
        may_be_others = plans.was_good(obj) and self._known(obj).proved != basis
        ours = dict(self._devices(key_of(obj).name, basis.url)) if may_be_others else {}
        return self._remembered(basis, plans.refusal_of(shown, ours), client, found)

    def _remembered(
        self,
        basis: _Basis,
        refusal: Refusal | None,
        client: TailnetClient | None = None,
        credentials: ClientCredentials | None = None,
    ) -> _Judged:
        seconds = refusal.requeue_after if refusal and refusal.requeue_after is not None else plans.DAY
        return _Judged(basis, refusal, self._clock() + seconds, client, credentials)

    def _credentials(self, given: Given) -> ClientCredentials:
        if given.audience:
            return self._factory.identity(given.client_id, given.audience)
        found = Credentials(given.client_id, given.client_secret)
        return lambda: found

    def _register(self, obj: Object, refusal: str) -> None:
        """Register the tailnet of *obj* by the latest judgement. Refuse new proxies with *refusal*, unless it is empty.

        Bad credentials never replace good ones, with which existing proxies go on. If there are no good credentials, as
        after a restart, existing proxies get those that the control server could not judge yet. Without this rule, a
        short failure of a control server would change the status of all its Connectors.
        """
        name, judged = key_of(obj).name, self._known(obj).judged
        there = self._tailnets.registered(name)
        if judged is None:
            return
        reason = judged.refusal.reason if judged.refusal else ""
        if there is not None and self._known(obj).proved is None and reason == plans.CHANGED:
            self._tailnets.unregister(name)
        elif judged.client is not None and judged.credentials is not None:
            good = judged.refusal is None
            if there is not None and there.client.url == judged.client.url:
                if good:
                    there.client.use(judged.credentials)
            elif good or (there is None and reason == plans.UNREACHABLE):
                self._tailnets.register(self._factory.tailnet(name, judged.client))
        self._tailnets.refuse(name, refusal)

    async def _secret(self, key: Key) -> Object | None:
        try:
            return await self._factory.kube.get(SECRET, key)
        except NotFound:
            return None

    def _users(self, name: str) -> Iterator[Object]:
        """Yield the objects that name the Tailnet called *name*."""
        for resource in TAILNET_USERS:
            for obj in self._cache.all(resource):
                if spec_text(obj, "tailnet") == name:
                    yield obj

    def _services(self, name: str) -> list[str]:
        """Return the Tailscale Services in the Tailnet called *name* that the operator owns."""
        owned = self._tailnets.owned_services(name, self._operator_id())
        return [f"Tailscale Service {service_name(label)}" for label in sorted(owned)]

    def _strays(self, name: str) -> Iterator[Object]:
        """Yield the objects that perhaps have a Tailscale Service in the Tailnet called *name*.

        Their group is gone, and the operator has yet to read that Tailscale Service.
        """
        for resource in (INGRESS, SERVICE):
            for obj in self._cache.all(resource):
                if has_finalizer(obj, finalizer_of(obj)):
                    group = annotations(obj).get(PROXY_GROUP, "")
                    view = self._tailnets.service(name, label_of(obj))
                    is_unread = view.pending is not None or (view.refusal is not None and view.refusal.is_passing)
                    if is_unread and self._cache.get(PROXYGROUP, Key("", group)) is None:
                        yield obj

    def _inhabitants(self, name: str) -> Iterator[Object]:
        """Yield the objects that no longer name the Tailnet called *name*, but whose devices are still in its tailnet.

        Raises Pending while it is not known in which tailnet the devices are.
        """
        for resource in TAILNET_USERS:
            for obj in self._cache.all(resource):
                secrets = self._secrets(obj)
                reported = (device_of(secret, None) for secret in secrets)
                devices = {device.id: device.fqdn for device in reported if device.id}
                url, named = next(filter(None, map(login_url_of, secrets)), ""), spec_text(obj, "tailnet")
                if named != name and devices and self._tailnets.home(named, url, devices) == name:
                    yield obj

    def _secrets(self, user: Object) -> list[Object]:
        owner = Owner(OWNER_TYPES[resource_of(user)], key_of(user))
        return self._cache.indexed(SECRET, BY_OWNER, str(owner))

    def _devices(self, name: str, url: str) -> Iterator[tuple[str, str]]:
        """Yield the IDs and names of devices by which the operator recognizes the tailnet of the Tailnet called *name*.

        They are the devices of its proxies, but not those that are in another registered tailnet. Devices at the
        Headscale server with this *url* are left out, too: the server has only one tailnet, so nothing is in doubt.
        """
        others = [each for each in self._tailnets.all_registered() if each.name != name]
        for user in self._users(name):
            secrets = self._secrets(user)
            is_here = url in map(login_url_of, secrets)
            for device in (device_of(secret, None) for secret in secrets):
                is_known = (is_here and is_headscales(device)) or any(each.devices.known(device.id) for each in others)
                if device.id and not is_known:
                    yield device.id, device.fqdn or device.id

    def keys_of_secret(self, metadata: Object) -> Iterable[Key]:
        name = key_of(metadata).name
        return [key_of(obj) for obj in self._cache.all(TAILNET) if secret_name(obj) == name]

    def keys_of_user(self, _user: Object) -> Iterable[Key]:
        """Return the Tailnets that are being deleted: each of them waits until no object names it any more."""
        return [key_of(obj) for obj in self._cache.all(TAILNET) if is_deleting(obj)]

    def keys_of_service(self, service: Object) -> Iterable[Key]:
        """Return the Tailnet that has *service*, if the deletion of the Tailnet waits for the end of *service*."""
        tailnet = self._cache.get(TAILNET, Key("", key_of(service).namespace))
        return [key_of(tailnet)] if tailnet and is_deleting(tailnet) else ()
