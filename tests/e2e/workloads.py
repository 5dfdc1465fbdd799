"""What tests apply: objects for the operator, and Pods to try them from."""

from typing import Any

from tests.e2e.testbed import control, registry
from tests.support import manifests

# The specs of Services that lead to what `web` makes with the name "web".
TO_WEB: dict[str, Any] = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
BALANCED: dict[str, Any] = {**TO_WEB, "type": "LoadBalancer", "loadBalancerClass": "tailscale"}

PEER_NAME = f"peer.{control.DOMAIN}"
PAGE = "hello from the cluster"

Object = dict[str, Any]


def egress_service(namespace: str, name: str, **annotations: str) -> Object:
    """Return an egress Service; `tailnet_fqdn="…"` is the annotation tailscale.com/tailnet-fqdn."""
    return _within(namespace, manifests.egress(name, "", **annotations))


def exposed_service(namespace: str, name: str, spec: Object, **annotations: str) -> Object:
    """Return a Service that the tailnet is to reach; *annotations* as for `egress_service`."""
    return {**egress_service(namespace, name, **annotations), "spec": spec}


def ingress(namespace: str, name: str, host: str = "", **annotations: str) -> Object:
    """Return an Ingress that shows the Service ``web`` to the tailnet as *host*, which is *name* if none is given."""
    return _within(namespace, manifests.ingress(name, host or name, **annotations))


def _within(namespace: str, obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


NOWHERE = manifests.proxy_class("nowhere", statefulSet={"pod": {"nodeSelector": {"example.org/node": "none"}}})
"""A class whose proxies no node takes."""


def web(namespace: str, name: str) -> list[Object]:
    """Return a Pod that serves `PAGE` to everybody, and its Service on port 80."""
    serve = f"mkdir /tmp/web && echo '{PAGE}' > /tmp/web/index.html && exec python3 -m http.server -d /tmp/web 8080"
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    return [pod(namespace, name, {"command": ["sh", "-c", serve], "readinessProbe": probe}), service]


def client(namespace: str) -> Object:
    """Return a Pod with curl and dig."""
    return pod(namespace, "client", {"command": ["sleep", "infinity"]})


def pod(namespace: str, name: str, container: Object) -> Object:
    """Return a Pod of one *container*, which has the bed's base image."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": name, "image": registry.BASE, **container}],
        },
    }
