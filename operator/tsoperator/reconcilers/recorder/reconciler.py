"""Gathers the facts about Recorders that `plan` needs."""

from collections.abc import Iterable

from tsoperator.api.names import AUTH_INFIX, PARENT_RECORDER
from tsoperator.api.objects import (
    DEVICE,
    POD,
    RECORDER,
    ROLE,
    ROLEBINDING,
    SECRET,
    SECRET_METADATA,
    SERVICEACCOUNT,
    STATEFULSET,
    TAILNET,
    Key,
    Object,
    Resource,
    key_of,
)
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import NotFound
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.proxies import Proxies, Seen
from tsoperator.reconcilers.recorder import plan as plans
from tsoperator.reconcilers.recorder.ask import Ask, credentials_name, ordinal_in, parse
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.ownership import BY_OWNER, Owner, is_anothers, owned_keys
from tsoperator.runtime.plan import Plan


def recorders(proxies: Proxies, client: KubeClient) -> Kind[Seen[Ask, plans.Observed] | Plan]:
    """Return the `Kind` of Recorders, which makes their replicas."""
    view = _View(proxies, client)
    watches: Watches = {
        RECORDER: lambda recorder: (key_of(recorder),),
        **dict.fromkeys((POD, ROLE, ROLEBINDING, SECRET, SERVICEACCOUNT, STATEFULSET), view.parent_keys),
        SECRET_METADATA: view.keys_of_credentials,
        TAILNET: proxies.naming(RECORDER, "tailnet"),
        DEVICE: lambda device: proxies.parents_of_device(device, PARENT_RECORDER),
    }
    return proxies.kind(RECORDER, watches, parse, view.look, plans, left=proxies.collected)


class _View:
    """Gathers the facts about Recorders, and finds the Recorders that a change concerns."""

    def __init__(self, proxies: Proxies, client: KubeClient) -> None:
        self._proxies = proxies
        self._client = client
        self._cache = proxies.cache
        self._namespace = proxies.settings.namespace

    async def look(self, ask: Ask) -> plans.Observed:
        """Gather the facts about a Recorder."""
        named = self._named(ask)
        children = self._children(ask.owner, named)
        return plans.Observed(
            children,
            self._cache.indexed(SERVICEACCOUNT, BY_OWNER, str(ask.owner)),
            named,
            await self._lacks(ask.credentials),
            self._proxies.tailnet(ask.tailnet, ask.owner, children),
        )

    def _named(self, ask: Ask) -> list[Object]:
        """Return the objects that have the names of children of a Recorder, whoever made them."""
        name, ordinals = ask.owner.key.name, range(ask.parsed.spec.replicas if ask.parsed and not ask.wrong else 0)
        wanted = [
            (SERVICEACCOUNT, ask.account),
            *((resource, name) for resource in (ROLE, ROLEBINDING, STATEFULSET)),
            *((SECRET, f"{name}{infix}-{ordinal}") for ordinal in ordinals for infix in ("", AUTH_INFIX)),
        ]
        found = (self._cache.get(resource, Key(self._namespace, each)) for resource, each in wanted)
        return [each for each in found if each is not None]

    def _children(self, owner: Owner, named: Iterable[Object]) -> Children:
        """Return the children of the Recorder *owner*.

        They are those objects among *named* that belong to the Recorder, and the objects of surplus replicas.
        """
        name = owner.key.name

        def ours(resource: Resource) -> dict[str, Object]:
            found = [*self._cache.indexed(resource, BY_OWNER, str(owner)), *named]
            kept = (each for each in found if each["kind"] == resource.kind and not is_anothers(each, owner))
            return {key_of(each).name: each for each in kept}

        def numbered(resource: Resource) -> list[Object]:
            found = ours(resource)
            ordinals = {each: ordinal for each in found if (ordinal := ordinal_in(name, each)) is not None}
            return [found[each] for each in sorted(ordinals, key=lambda each: (ordinals[each], each))]

        pods = numbered(POD)
        return Children(
            statefulsets=[each for called, each in ours(STATEFULSET).items() if called == name],
            secrets=numbered(SECRET),
            pods=pods,
            overdue=self._proxies.overdue(pods),
        )

    async def _lacks(self, credentials: str) -> bool:
        """Tell whether the Secret called *credentials*, which a Recorder names, is missing. Raises KubeError.

        This asks the API server: if a user applies the Secret and the Recorder together, the Recorder can be in the
        cache before the Secret. The result is False if the Recorder names no Secret.
        """
        key = Key(self._namespace, credentials)
        if not credentials or any(self._cache.get(each, key) for each in (SECRET_METADATA, SECRET)):
            return False
        try:
            await self._client.get(SECRET_METADATA, key)
        except NotFound:
            return True
        return False

    def parent_keys(self, child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_RECORDER, self._namespace)

    def keys_of_credentials(self, secret: Object) -> Iterable[Key]:
        name = key_of(secret).name
        return [key_of(each) for each in self._cache.all(RECORDER) if credentials_name(each) == name]
