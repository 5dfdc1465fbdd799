"""Stores all objects. Each write gets the next revision, and goes into the history and to the subscriptions.

The store is synchronous, for one event loop. The objects that it returns are shared. Don't change them; build a changed
copy instead.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from clustersim import defaults, validation
from clustersim.errors import ApiError, already_exists, bad_request, conflict, forbidden, not_found
from clustersim.history import Change, History, Subscription
from clustersim.merge import merge_patch
from clustersim.objects import (
    NAMESPACE,
    POD,
    SERVICE,
    TAILNET,
    Object,
    Resource,
    clone,
    labels_of,
    name_of,
    namespace_of,
)
from clustersim.pods import grace_seconds
from clustersim.services import FAMILIES, SERVICE_FAMILIES, Allocator, complete_status

__all__ = ["ApiError", "Change", "Store", "Subscription"]

HISTORY_WINDOW = 20_000
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FIXED_METADATA = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
_OPTIONAL_METADATA = ("labels", "annotations", "finalizers", "ownerReferences", "managedFields", "selfLink")
_IMMORTAL = ("default", "kube-system", "kube-public")
_FOREGROUND = "foregroundDeletion"


class Store:
    """Stores objects by kind, namespace and name, and applies the API server's rules for writes."""

    def __init__(
        self,
        namespaces: Iterable[str] = ("default", "kube-system", "tailscale"),
        *,
        window: int = HISTORY_WINDOW,
        families: Sequence[str] = FAMILIES,
        service_families: Sequence[str] = SERVICE_FAMILIES,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.revision = 0
        self._objects: dict[Resource, dict[tuple[str, str], Object]] = {}
        self._population: Counter[str] = Counter()
        self._history = History(window)
        self._allocator = Allocator(families, service_families)
        self._clock = clock
        self.silent_nodes: set[str] = set()
        """The nodes whose kubelet doesn't run. A deleted Pod on such a node stays, because only a kubelet ends it."""
        self.login_url = ""
        """The control server for Tailnets without spec.loginUrl, as an admission policy can set it, or "" for none."""
        for namespace in namespaces:
            self.create(NAMESPACE, {"metadata": {"name": namespace}})

    def now(self) -> datetime:
        """Return the time of the API server."""
        return self._clock()

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object, or None if it doesn't exist."""
        return self._objects.get(resource, {}).get((namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return an object; raises ApiError 404 if it doesn't exist."""
        obj = self.find(resource, namespace, name)
        if obj is None:
            raise not_found(resource, name)
        return obj

    def list(self, resource: Resource, namespace: str = "", labels: Mapping[str, str] | None = None) -> list[Object]:
        """Return the objects of a kind, ordered by namespace and name.

        An empty *namespace* stands for all namespaces.
        """
        found = sorted(self._objects.get(resource, {}).items())
        wanted = (labels or {}).items()
        return [
            obj
            for (where, _), obj in found
            if (not namespace or where == namespace) and wanted <= labels_of(obj).items()
        ]

    def subscribe(self, *resources: Resource) -> Subscription:
        """Return a subscription to the changes of *resources*, or of all kinds if none is given."""
        return Subscription(self._history, frozenset(resources))

    def changes_since(self, resource: Resource, revision: int) -> Sequence[Change]:
        """Return the changes of *resource* after *revision*; raises ApiError 410 if the history begins later."""
        return self._history.since(resource, revision)

    def expire_history(self) -> None:
        """Forget the history, so that a watch from an older version than the present one gets a 410."""
        self.revision += 1
        self._history.forget(self.revision)

    def restore(self, revision: int) -> None:
        """Restore the objects of *revision*, as a restore of etcd does.

        Cluster IPs and node ports that were allocated after *revision* stay allocated.
        """
        for change in self._history.undo(revision):
            objects, key = self._objects[change.resource], (namespace_of(change.object), name_of(change.object))
            self._population[key[0]] += (change.old is not None) - (key in objects)
            if change.old is None:
                del objects[key]
            else:
                objects[key] = change.old
        self.revision = revision

    def create(self, resource: Resource, obj: Object) -> Object:
        """Create an object with its defaults, and return it."""
        new = self._prepare_create(resource, obj)
        if resource == SERVICE:
            self._allocator.reserve(new)
        self._population[namespace_of(new)] += 1
        return self._commit("ADDED", resource, new, None)

    def replace(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """Replace an object, or its status; raises ApiError 409 if *obj* has an outdated ``resourceVersion``."""
        namespace = namespace_of(obj) if resource.namespaced else ""
        return self.update(resource, namespace, name_of(obj), lambda _: obj, subresource)

    def merge(self, resource: Resource, namespace: str, name: str, patch: Object, subresource: str = "") -> Object:
        """Apply a JSON merge patch (RFC 7386) to an object or its status, and return the object."""
        return self.update(resource, namespace, name, lambda old: merge_patch(old, patch), subresource)

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        subresource: str = "",
    ) -> Object:
        """Replace an object, or its status, by the result of *change*. Write nothing if the result is the same."""
        old = self.get(resource, namespace, name)
        changed = change(old)
        _check_identity(resource, old, changed)
        new = (
            _with_status(resource, old, changed)
            if subresource == "status"
            else self._prepare_update(resource, old, changed)
        )
        if new == old:
            return old
        if resource == SERVICE:
            self._allocator.release(old)
            self._allocator.reserve(new)
        if _is_gone(new):
            return self._remove(resource, new, old)
        return self._commit("MODIFIED", resource, new, old)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        propagation: str = "Background",
        uid: str = "",
        *,
        grace: int | None = None,
    ) -> Object:
        """Remove an object, or mark it for deletion if it has finalizers or is a Pod with a grace period.

        *propagation* is Background or Foreground; if it is empty, the object's finalizers decide. *grace* is the grace
        period of a Pod in seconds. If it is None, the Pod's spec decides.
        """
        old = self.get(resource, namespace, name)
        if resource == NAMESPACE and name in _IMMORTAL:
            raise forbidden(resource, name, "this namespace may not be deleted")
        if uid and uid != old["metadata"]["uid"]:
            cause = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise conflict(resource, name, cause)
        wanted = 0
        if resource == POD:
            wanted = grace_seconds(old, grace, old["spec"].get("nodeName") in self.silent_nodes)
        marked = self._marked(old, _deletion_finalizers(old, propagation), wanted)
        if resource == NAMESPACE:
            return self._delete_namespace(old, marked)
        if _is_gone(marked):
            return self._remove(resource, marked, old)
        return old if marked == old else self._commit("MODIFIED", resource, marked, old)

    def adopt(self, resource: Resource, obj: Object) -> None:
        """Store *obj* exactly as another cluster has it, with its UID and without checks, to copy that cluster."""
        old = self.find(resource, namespace_of(obj), name_of(obj))
        self._population[namespace_of(obj)] += old is None
        self._commit("ADDED" if old is None else "MODIFIED", resource, obj, old)

    def disown(self, resource: Resource, namespace: str, name: str) -> None:
        """Remove an object that `adopt` has stored, if it still exists."""
        obj = self.find(resource, namespace, name)
        if obj is not None:
            self._remove(resource, obj, obj)

    def _prepare_create(self, resource: Resource, obj: Object) -> Object:
        new: Object = {"apiVersion": resource.api_version, "kind": resource.kind, **clone(obj)}
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(5))
        if not resource.namespaced:
            metadata.pop("namespace", None)
        validation.check_metadata(resource, new)
        namespace, name = namespace_of(new), name_of(new)
        self._check_namespace(resource, namespace, name)
        if (namespace, name) in self._objects.get(resource, {}):
            raise already_exists(resource, name)
        for field in ("resourceVersion", *_FIXED_METADATA):
            metadata.pop(field, None)
        metadata |= {"uid": str(uuid4()), "creationTimestamp": self._now()}
        if defaults.has_generation(resource):
            metadata["generation"] = 1
        _tidy(metadata)
        self._complete(resource, new, None)
        return new

    def _prepare_update(self, resource: Resource, old: Object, changed: Object) -> Object:
        kind = {"apiVersion": old["apiVersion"], "kind": old["kind"]}
        new: Object = {**kind, **clone(changed), **kind}
        was = old["metadata"]
        metadata = new["metadata"] = {**(new.get("metadata") or {}), "name": was["name"]}
        metadata |= {"namespace": was["namespace"]} if resource.namespaced else {}
        for field in _FIXED_METADATA:
            metadata.pop(field, None)
        metadata |= {field: was[field] for field in ("resourceVersion", *_FIXED_METADATA) if field in was}
        if resource.status:
            new.pop("status", None)
            new |= {"status": old["status"]} if "status" in old else {}
        _tidy(metadata)
        validation.check_metadata(resource, new)
        self._complete(resource, new, old)
        validation.check_update(resource, new, old)
        if "generation" in metadata and _content(new) != _content(old):
            metadata["generation"] += 1
        return new

    def _complete(self, resource: Resource, new: Object, old: Object | None) -> None:
        defaults.fill(resource, new, old)
        if resource == SERVICE:
            self._allocator.complete(new, old)
        if resource == TAILNET and self.login_url:
            new["spec"] = {"loginUrl": self.login_url, **(new.get("spec") or {})}

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        home = self.get(NAMESPACE, "", namespace)
        if "deletionTimestamp" in home["metadata"]:
            cause = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(resource, name, cause)

    def _marked(self, obj: Object, finalizers: Sequence[str], grace: int) -> Object:
        metadata = {**obj["metadata"], "finalizers": [*finalizers]}
        if "deletionTimestamp" not in metadata:
            metadata |= {"deletionTimestamp": self._now(grace), "deletionGracePeriodSeconds": grace}
            if "generation" in metadata:
                metadata["generation"] += 1
        elif (less := grace - metadata["deletionGracePeriodSeconds"]) < 0:
            ends = datetime.fromisoformat(metadata["deletionTimestamp"]) + timedelta(seconds=less)
            metadata |= {"deletionTimestamp": _rfc3339(ends), "deletionGracePeriodSeconds": grace}
        _tidy(metadata)
        return {**obj, "metadata": metadata}

    def _delete_namespace(self, old: Object, marked: Object) -> Object:
        namespace = name_of(old)
        terminating = {**marked, "status": {**marked.get("status", {}), "phase": "Terminating"}}
        if terminating != old:
            terminating = self._commit("MODIFIED", NAMESPACE, terminating, old)
        for resource, objects in self._objects.items():
            for where, name in [key for key in objects if key[0] == namespace]:
                if (where, name) in objects:
                    self.delete(resource, where, name)
        self._finish_namespace(namespace)
        return self.find(NAMESPACE, "", namespace) or terminating

    def _finish_namespace(self, namespace: str) -> None:
        home = self.find(NAMESPACE, "", namespace)
        if home is not None and _is_gone(home) and not self._population[namespace]:
            self._remove(NAMESPACE, home, home)

    def _commit(self, kind: str, resource: Resource, obj: Object, old: Object | None) -> Object:
        new = self._stamped(obj)
        self._objects.setdefault(resource, {})[namespace_of(new), name_of(new)] = new
        self._history.append(Change(kind, resource, new, old, self.revision))
        return new

    def _remove(self, resource: Resource, obj: Object, old: Object) -> Object:
        namespace, name = namespace_of(obj), name_of(obj)
        del self._objects[resource][namespace, name]
        last = self._stamped(obj)
        self._history.append(Change("DELETED", resource, last, old, self.revision))
        if resource == SERVICE:
            self._allocator.release(old)
        self._population[namespace] -= 1
        if namespace and not self._population[namespace]:
            self._finish_namespace(namespace)
        return last

    def _stamped(self, obj: Object) -> Object:
        self.revision += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}

    def _now(self, later: float = 0) -> str:
        return _rfc3339(self._clock() + timedelta(seconds=later))


def _rfc3339(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _content(obj: Object) -> Object:
    return {field: value for field, value in obj.items() if field not in ("metadata", "status")}


def _tidy(metadata: Object) -> None:
    """Drop empty fields, such as labels and finalizers, that a real API server leaves out of its answers."""
    for field in _OPTIONAL_METADATA:
        if field in metadata and not metadata[field]:
            del metadata[field]


def _is_gone(obj: Object) -> bool:
    metadata = obj["metadata"]
    held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return "deletionTimestamp" in metadata and not held


def _with_status(resource: Resource, old: Object, changed: Object) -> Object:
    new = {field: value for field, value in old.items() if field != "status"}
    status = clone(changed.get("status"))
    if status is not None:
        new["status"] = status
    if resource == SERVICE:
        complete_status(new)
    return new


def _deletion_finalizers(obj: Object, propagation: str) -> list[str]:
    finalizers: list[str] = obj["metadata"].get("finalizers") or []
    if not propagation:
        return finalizers
    kept = [finalizer for finalizer in finalizers if finalizer != _FOREGROUND]
    return [*kept, _FOREGROUND] if propagation == "Foreground" else kept


def _check_identity(resource: Resource, old: Object, new: Object) -> None:
    metadata, was = new.get("metadata") or {}, old["metadata"]
    name = was["name"]
    if metadata.get("name", name) != name or (metadata.get("namespace") or was.get("namespace")) != was.get(
        "namespace"
    ):
        raise bad_request(
            f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({name})"
        )
    if metadata.get("uid", was["uid"]) != was["uid"]:
        cause = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {was['uid']}"
        raise conflict(resource, name, cause)
    if metadata.get("resourceVersion", was["resourceVersion"]) not in ("", was["resourceVersion"]):
        cause = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource, name, cause)
