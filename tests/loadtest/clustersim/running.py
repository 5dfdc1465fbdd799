"""The objects that tests put into a store, and functions that wait for the controllers of the simulated cluster."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from clustersim.objects import POD, ROLE, ROLEBINDING, SECRET, Object
from clustersim.store import Store
from clustersim.tailnet import NewKey, Tailnet

CONFIG = {"Version": "alpha0", "Hostname": "default-db", "acceptDNS": False, "NoStatefulFiltering": True}
DOMAIN = "web.tail1234.ts.net"
"""The name of a Tailscale Service that needs a certificate."""

ROLE_OF_DOMAIN: Object = {
    "metadata": {"name": DOMAIN, "namespace": "tailscale"},
    "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [DOMAIN, "acme"], "verbs": ["patch"]}],
}
BINDING: Object = {
    "metadata": {"name": DOMAIN, "namespace": "tailscale"},
    "subjects": [{"kind": "ServiceAccount", "name": "ing", "namespace": "tailscale"}],
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": DOMAIN},
}


async def until(store: Store, holds: Callable[[], Any], seconds: float = 30) -> None:
    """Wait until *holds* returns a true value. Raises TimeoutError after *seconds*.

    The function calls *holds* at once, and again after each change in *store*.
    """
    with store.subscribe() as changes:
        async with asyncio.timeout(seconds):
            while not holds():
                await changes.batch()


def statefulset(replicas: int = 1, image: str = "example.org/a:1", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": selector, "serviceName": "web", "template": template, **spec},
    }


def headless(name: str = "web", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "labels": {"team": "a"}}
    dual = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}
    return {"metadata": metadata, "spec": {"clusterIP": "None", "selector": {"app": "web"}, **dual, **spec}}


def proxy_pod(name: str = "ts-db-0", **variables: str) -> Object:
    fields = {"POD_NAME": "metadata.name", "POD_UID": "metadata.uid"}
    env: list[Object] = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    values = {"TS_KUBE_SECRET": "$(POD_NAME)", "TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR": "/etc/tsconfig/$(POD_NAME)"}
    env += [{"name": key, "value": value} for key, value in {**values, **variables}.items()]
    mounts = [
        {"name": "tailscaledconfig-0", "mountPath": f"/etc/tsconfig/{name}"},
        {"name": "serve-config-0", "mountPath": f"/etc/tailscaled/{name}"},
    ]
    items = [{"key": "serve-config", "path": "serve-config"}]
    volumes = [
        {"name": "tailscaledconfig-0", "secret": {"secretName": name}},
        {"name": "serve-config-0", "secret": {"secretName": name, "items": items}},
    ]
    container = {"name": "tailscale", "image": "example.org/proxy:1", "env": env, "volumeMounts": mounts}
    return {
        "metadata": {"name": name, "namespace": "tailscale", "labels": {"app": name}},
        "spec": {"containers": [container], "volumes": volumes},
    }


def new_key(tailnet: Tailnet, **changes: Any) -> str:
    return tailnet.create_key(NewKey(("tag:k8s",), **changes)).key


def config_secret(name: str = "ts-db-0", **config: Any) -> Object:
    """Return the config Secret *name* of a proxy. The settings *config* replace or extend those in `CONFIG`."""
    metadata = {"name": name, "namespace": "tailscale"}
    return {"metadata": metadata, "stringData": {"cap-107.hujson": json.dumps({**CONFIG, **config})}}


def configure(store: Store, name: str = "ts-db-0", **config: Any) -> None:
    """Write a configuration into a proxy's Secret *name* as the operator does, and touch the proxy's Pod.

    The settings *config* replace or extend those in `CONFIG`.
    """
    store.merge(SECRET, "tailscale", name, {"stringData": config_secret(name, **config)["stringData"]})
    touch(store, name)


def touch(store: Store, name: str) -> None:
    """Change an annotation of the Pod *name*, so that the kubelet mounts the Pod's changed files at once."""
    store.merge(POD, "tailscale", name, {"metadata": {"annotations": {"example.org/touched": str(uuid4())}}})


def state(store: Store, name: str = "ts-db-0") -> dict[str, str]:
    """Return the decoded data of the Secret *name*, by default that of the proxy ts-db-0."""
    data = store.get(SECRET, "tailscale", name).get("data", {})
    return {key: b64decode(value).decode() for key, value in data.items()}


def prepare_certificate(store: Store) -> None:
    """Create what the operator creates for the certificate of `DOMAIN`: two empty Secrets, a Role and a RoleBinding."""
    for name in (DOMAIN, "acme"):
        store.create(SECRET, {"metadata": {"name": name, "namespace": "tailscale"}})
    store.create(ROLE, ROLE_OF_DOMAIN)
    store.create(ROLEBINDING, BINDING)
