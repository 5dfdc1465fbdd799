"""Finds the objects that a page or an example says to apply, and tells whether they work once they are applied."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tsoperator.api.names import PROXY_CLASS, PROXY_GROUP
from tsoperator.api.objects import Object, annotations
from tsoperator.api.v1alpha1.connector import Connector
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.peerrelay import PeerRelay
from tsoperator.api.v1alpha1.proxyclass import ProxyClass
from tsoperator.api.v1alpha1.proxygroup import ProxyGroup
from tsoperator.api.v1alpha1.proxygrouppolicy import ProxyGroupPolicy
from tsoperator.api.v1alpha1.recorder import Recorder
from tsoperator.api.v1alpha1.tailnet import Tailnet
from tsoperator.api.v1alpha1.wire import CustomResource

from tests.docs.pages import manifests
from tests.support.manifests import auth_proxy_account
from tests.support.operator import Condition, World

OURS: Mapping[str, type[CustomResource]] = {
    model.__name__: model
    for model in (Connector, DNSConfig, PeerRelay, ProxyClass, ProxyGroup, ProxyGroupPolicy, Recorder, Tailnet)
}
CONDITIONS = {"DNSConfig": "NameserverReady"}
"""The type of the condition that says whether an object works, for kinds where it isn't `<kind>Ready`."""
CLUSTERS = {"v1", "apps/v1", "networking.k8s.io/v1", "tailscale.com/v1alpha1"}
"""The API versions of the objects that the tests apply. The pages show manifests for other tools, too."""


def applied(path: Path) -> list[Object]:
    """Return the objects that a page or an example says to apply, with the namespace that kubectl would give them."""
    found = [obj for obj in manifests(path) if obj["apiVersion"] in CLUSTERS]
    for obj in found:
        if obj["kind"] not in OURS:
            obj["metadata"].setdefault("namespace", "default")
    return found


def asks(obj: Object) -> bool:
    """Tell whether the operator acts on *obj*."""
    spec = obj.get("spec", {})
    classes = (spec.get("loadBalancerClass"), spec.get("ingressClassName"))
    given = any(name.startswith("tailscale.com/") and name != PROXY_CLASS for name in annotations(obj))
    return given or obj["kind"] in OURS or "tailscale" in classes


def condition_of(obj: Object) -> str:
    if (obj.get("spec") or {}).get("clusterDNS", {}).get("mode") == "Managed":
        return "ClusterDNSConfigured"
    if obj["kind"] == "Service" and PROXY_GROUP in annotations(obj):
        return "TailscaleIngressSvcConfigured" if is_hosted(obj) else "TailscaleEgressSvcReady"
    if obj["kind"] == "Service":
        return "TailscaleProxyReady"
    return CONDITIONS.get(obj["kind"], f"{obj['kind']}Ready")


def is_hosted(obj: Object) -> bool:
    """Tell whether *obj* is a Service that a ProxyGroup exposes."""
    return obj["kind"] == "Service" and PROXY_GROUP in annotations(obj) and obj["spec"]["type"] == "LoadBalancer"


def backends(objects: Sequence[Object]) -> list[Object]:
    """Return further objects that *objects* need: Pods for Services that a ProxyGroup exposes, and a ServiceAccount.

    A Service gets no Pod if a Deployment among *objects* makes Pods for it. The proxies advertise a Service only
    while the Service has a ready Pod.
    """
    made = [obj["spec"]["template"]["metadata"]["labels"] for obj in objects if obj["kind"] == "Deployment"]
    found = [obj for obj in objects if is_hosted(obj) and obj["spec"]["selector"] not in made]
    impersonating = any((obj.get("spec") or {}).get("type") == "kube-apiserver" for obj in objects)
    return [
        *([auth_proxy_account()] if impersonating else ()),
        *(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**each["metadata"], "annotations": {}, "labels": each["spec"]["selector"]},
                "spec": {"containers": [{"name": "backend", "image": "registry.example.org/backend:1"}]},
            }
            for each in found
        ),
    ]


def in_world(obj: Object, world: World) -> Object:
    """Return *obj* for use in *world*: with the login URL or the OAuth client of the world's control server.

    This control server stands for those of all tailnets. Only a Tailnet gets the login URL, and only a Secret with an
    OAuth client gets the client.
    """
    if obj["kind"] == "Tailnet":
        return {**obj, "spec": {**obj["spec"], "loginUrl": world.control_url}}
    if "client_secret" in obj.get("stringData", {}):
        given = {"client_id": world.control.client_id, "client_secret": world.control.client_secret}
        return {**obj, "stringData": given}
    return obj


def is_partial(said: Condition) -> bool:
    """Tell whether some proxies of a ProxyGroup don't expose a Service yet, according to its condition."""
    counts = re.match(r"(\d+)/(\d+) proxy backends", said.message)
    return counts is not None and counts[1] != counts[2]


async def unserved(world: World, objects: Sequence[Object]) -> list[str]:
    """Return those of *objects* that don't report yet that they work, each with its condition or its Events."""
    found = []
    for obj in objects:
        if obj["kind"] == "Ingress":
            entries = ((await world.look(obj)).get("status") or {}).get("loadBalancer", {}).get("ingress")
            said = "" if entries else str(await world.events(obj))
        else:
            condition = await world.condition(obj, condition_of(obj))
            said = "" if condition and condition.status == "True" and not is_partial(condition) else str(condition)
        found += [f"{obj['kind']} {obj['metadata']['name']}: {said}"] if said else []
    return found
