"""Builders of objects in a cluster with the operator. Each returns a valid object, which the test can change."""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import EGRESS_GATE, FINALIZER, LABEL_SERVICE_NAME
from tsoperator.api.objects import (
    CONFIGMAP,
    CONNECTOR,
    DEPLOYMENT,
    DNSCONFIG,
    ENDPOINTSLICE,
    INGRESS,
    POD,
    PROXYCLASS,
    SECRET,
    SERVICE,
    Key,
    Object,
    Resource,
)
from tsoperator.group.grouptype import EGRESS
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.entries import Entry, render_entries
from tsoperator.proxy.secret import slim
from tsoperator.proxy.service import headless_service
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Child, Creation, DeleteDevice, Deletion, Patch, Plan
from tsoperator.settings import Settings

OPERATOR_NAMESPACE = "tailscale"
FQDN = "db.tail1234.ts.net"


HOLD: Object = {"metadata": {"finalizers": ["example.org/hold"]}}
"""A patch that adds somebody else's finalizer to an object, so that the object stays, terminating, after a deletion."""
LET_GO: Object = {"metadata": {"finalizers": None}}
"""A patch that removes all finalizers from an object, so that a deleted object disappears."""


def settings(**changes: Any) -> Settings:
    """Return the operator's settings with the given values; all other settings have their defaults."""
    return Settings(OPERATOR_NAMESPACE, Path("client-id"), Path("client-secret"), **changes)


def obj(resource: Resource, key: Key, content: Object | None = None, **metadata: Any) -> Object:
    """Return an object as the API server stores it: with *content*, and with *metadata* beside its name and UID."""
    identity = {"namespace": key.namespace} if resource.namespaced else {}
    head = {**identity, "name": key.name, "uid": f"{key.name}-uid", "resourceVersion": "1", **metadata}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": head, **(content or {})}


def stored(written: Object | None, **metadata: Any) -> Object:
    """Return *written* as the API server stores it: with a UID, a resource version and further *metadata*."""
    assert written is not None
    given = {"uid": f"{written['metadata']['name']}-uid", "resourceVersion": "2", **metadata}
    return {**written, "metadata": {**written["metadata"], **given}}


def children_of(plan: Plan) -> list[Object]:
    """Return the children that *plan* writes as whole objects, not as patches."""
    return [step.obj for step in plan.steps if isinstance(step, Child | Creation)]


def patches_of(plan: Plan) -> list[Patch]:
    """Return the patches of *plan*."""
    return [step for step in plan.steps if isinstance(step, Patch)]


def deletions_of(plan: Plan) -> list[Deletion]:
    """Return the deletions of *plan*."""
    return [step for step in plan.steps if isinstance(step, Deletion)]


def deleted_devices(plan: Plan) -> list[str]:
    """Return the IDs of the devices that *plan* deletes."""
    return [step.device for step in plan.steps if isinstance(step, DeleteDevice)]


def status_of(plan: Plan) -> Object:
    """Return the status that *plan* writes. It must write exactly one."""
    assert plan.status is not None
    return plan.status


def condition_of(plan: Plan) -> Object:
    """Return the one condition that *plan* sets, without its time."""
    (found,) = status_of(plan)["conditions"]
    return {name: value for name, value in found.items() if name != "lastTransitionTime"}


def reasons_of(plan: Plan) -> list[str]:
    """Return the reasons of the Events of *plan*."""
    return [note.reason for note in plan.notes]


def deleting(live: Object) -> Object:
    """Return *live* with a deletion time."""
    return {**live, "metadata": {**live["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"}}


def held(live: Object) -> Object:
    """Return *live* with the operator's finalizer."""
    return {**live, "metadata": {**live["metadata"], "finalizers": [FINALIZER]}}


def egress_service(
    annotations: Mapping[str, str] | None = None, *, name: str = "db", spec: Object | None = None, **metadata: Any
) -> Object:
    """Return a user's Service, which asks for egress to `FQDN` unless *annotations* say otherwise."""
    given = {"tailscale.com/tailnet-fqdn": FQDN} if annotations is None else dict(annotations)
    content = {"spec": spec or {"type": "ExternalName", "externalName": "placeholder"}}
    return obj(SERVICE, Key("default", name), content, annotations=given, **metadata)


def backend_service(name: str = "web", *, cluster_ip: str | None = "192.0.2.4", ports: Sequence[Object] = ()) -> Object:
    """Return a user's Service to which an Ingress can lead."""
    spec = {"type": "ClusterIP", "ports": [*ports] or [{"port": 8080}]}
    return obj(SERVICE, Key("default", name), {"spec": spec | ({"clusterIP": cluster_ip} if cluster_ip else {})})


def to_service(name: str = "web", /, **port: Any) -> Object:
    """Return an Ingress backend: a Service and its port, by number or name."""
    return {"service": {"name": name, "port": port or {"number": 8080}}}


def to_path(path: str | None = "/", backend: Object | None = None, path_type: str = "Prefix") -> Object:
    """Return a path of an Ingress rule."""
    given = {} if path is None else {"path": path}
    return {**given, "pathType": path_type, "backend": backend or to_service()}


def live_ingress(
    annotations: Mapping[str, str] | None = None, *, host: str = "web", spec: Object | None = None, **metadata: Any
) -> Object:
    """Return a user's Ingress of our class with the TLS *host*, and with the fields in *spec* or a default backend."""
    tls = {"tls": [{"hosts": [host]}]} if host else {}
    content = {
        "spec": {"ingressClassName": "tailscale", **tls, **({"defaultBackend": to_service()} if spec is None else spec)}
    }
    return obj(INGRESS, Key("default", "web"), content, annotations=dict(annotations or {}), **metadata)


def live_dnsconfig(name: str = "ts-dns", nameserver: Object | None = None, **metadata: Any) -> Object:
    """Return a DNSConfig that asks for *nameserver*, by default a nameserver with the default settings."""
    return obj(DNSCONFIG, Key("", name), {"spec": {"nameserver": nameserver or {}}}, **{"generation": 1, **metadata})


def rolled_out(image: str, **status: int) -> Object:
    """Return the nameserver's Deployment, rolled out with *image*. *status* overrides fields of its status."""
    counts = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    pods = {"containers": [{"name": "nameserver", "image": image}]}
    content = {"spec": {"replicas": 2, "template": {"spec": pods}}, "status": {**counts, **status}}
    return obj(DEPLOYMENT, Key(OPERATOR_NAMESPACE, "nameserver"), content, generation=2)


def live_connector(spec: Object | None = None, *, name: str = "router", **metadata: Any) -> Object:
    """Return a Connector: a subnet router unless *spec* says otherwise."""
    given = {"subnetRouter": {"advertiseRoutes": ["10.40.0.0/14"]}} if spec is None else spec
    return obj(CONNECTOR, Key("", name), {"spec": given}, **{"generation": 1, **metadata})


def live_proxy_class(
    name: str = "prod", spec: Object | None = None, *, ready: bool | None = None, **metadata: Any
) -> Object:
    """Return a ProxyClass. If *ready* is given, its condition ProxyClassReady has that value."""
    made = obj(PROXYCLASS, Key("", name), {"spec": spec or {}}, **{"generation": 1, **metadata})
    if ready is None:
        return made
    found = condition("ProxyClassReady", ready, "ProxyClassValid" if ready else "ProxyClassInvalid", "", 1)
    return {**made, "status": {"conditions": set_condition([], [found], now="2026-01-02T03:04:05Z")}}


def headless(owner: Owner, parent_uid: str, name: str, magic_dns_name: str = "", **metadata: Any) -> Object:
    """Return the headless Service of a proxy as the API server stores it."""
    return stored(headless_service(Key(OPERATOR_NAMESPACE, name), owner, parent_uid, magic_dns_name), **metadata)


def whole_secret(name: str, data: Mapping[str, str | Object], labels: Mapping[str, str] | None = None) -> Object:
    """Return a proxy's Secret; values that are objects become JSON."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    key = Key(OPERATOR_NAMESPACE, name)
    return obj(SECRET, key, {"type": "Opaque", "data": encoded}, labels=dict(labels or {}))


def slim_secret(name: str, data: Mapping[str, str | Object], labels: Mapping[str, str] | None = None) -> Object:
    """Return a proxy's Secret in the slim form that the cache keeps."""
    return slim(whole_secret(name, data, labels))


def texts(secret: Object) -> dict[str, str]:
    """Return the decoded data of a Secret or of a patch."""
    data = secret.get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in data.items() if value is not None}


def pod(name: str, uid: str) -> Object:
    """Return a proxy's Pod."""
    return obj(POD, Key(OPERATOR_NAMESPACE, name), uid=uid)


def with_conditions(pod: Object, *conditions: tuple[str, str, str]) -> Object:
    """Return *pod* with *conditions*: the type, the status and the reason of each."""
    found = [{"type": type_, "status": status, "reason": reason} for type_, status, reason in conditions]
    return {**pod, "status": {**pod.get("status", {}), "conditions": found}}


def down(pod: Object) -> Object:
    """Return *pod* with the conditions of a Pod whose node has died after the Pod's readiness gate had opened."""
    return with_conditions(pod, (EGRESS_GATE, "True", ""), ("Ready", "False", ""))


def egress_config(group: str, *names: str) -> Object:
    """Return the ConfigMap of the ProxyGroup *group* with entries of these *names*, such as ``default-db``."""
    entries = {name: Entry("", "100.64.0.9", frozenset()) for name in names}
    content = {"binaryData": {"egress-services": render_entries(entries)}}
    return obj(CONFIGMAP, Key(OPERATOR_NAMESPACE, EGRESS.config_name(group)), content, labels=group_owner(group).labels)


def endpoint(*addresses: str, **conditions: bool | None) -> Object:
    """Return an endpoint of an EndpointSlice."""
    return {"addresses": [*addresses], **({"conditions": conditions} if conditions else {})}


def endpoint_slice(service: str, *endpoints: Object) -> Object:
    """Return an EndpointSlice of *service*."""
    key = Key(OPERATOR_NAMESPACE, f"{service}-{len(endpoints)}")
    return obj(ENDPOINTSLICE, key, {"endpoints": [*endpoints]}, labels={LABEL_SERVICE_NAME: service})
