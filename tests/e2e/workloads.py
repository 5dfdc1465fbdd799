"""The objects that tests apply: objects for the operator, and Pods that use them."""

from typing import Any

from tests.e2e.testbed import control, registry
from tests.e2e.testbed.peer import GREETER_PORT, WEB_PORT
from tests.support import manifests

# The specs of Services that lead to the Pod that `web` makes under the name "web".
TO_WEB: dict[str, Any] = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
BALANCED: dict[str, Any] = {**TO_WEB, "type": "LoadBalancer", "loadBalancerClass": "tailscale"}

# The ports of the devices outside: two of TCP, and one of UDP with the number of a TCP one.
PORTS = [
    {"name": "web", "port": WEB_PORT},
    {"name": "greeter", "port": GREETER_PORT},
    {"name": "greeter-udp", "port": GREETER_PORT, "protocol": "UDP"},
]

PEER_NAME = f"peer.{control.DOMAIN}"
PAGE = "hello from the cluster"

Object = dict[str, Any]


def egress_service(namespace: str, name: str, **annotations: str) -> Object:
    """Return an egress Service.

    An argument such as `tailnet_fqdn="…"` sets the annotation tailscale.com/tailnet-fqdn.
    """
    return _within(namespace, manifests.egress(name, "", **annotations))


def group_service(namespace: str, name: str, group: str, **annotations: str) -> Object:
    """Return an egress Service with each port of the devices outside.

    *group* serves the Service. If *group* is "", the Service has a proxy of its own. *annotations* are as for
    `egress_service`.
    """
    named = {"proxy_group": group} if group else {}
    service = egress_service(namespace, name, **named, **annotations)
    return {**service, "spec": {**service["spec"], "ports": PORTS}}


def targets(service: Object, *hosts: str) -> list[str]:
    """Return targets of a `Load`: each port of the devices outside, at the name of *service* and at each of *hosts*."""
    metadata = service["metadata"]
    named = [f"{metadata['name']}.{metadata['namespace']}.svc.cluster.local", *hosts]
    kinds = (("http", WEB_PORT), ("tcp", GREETER_PORT), ("udp", GREETER_PORT))
    return [f"{scheme}://{host}:{port}" for host in named for scheme, port in kinds]


def proxy_group(name: str, **spec: Any) -> Object:
    """Return a ProxyGroup of type egress."""
    return _ours("ProxyGroup", name, {"type": "egress", **spec})


def tailnet(name: str, url: str, secret: str) -> Object:
    """Return a Tailnet whose control server is at *url*, with the credentials in the Secret called *secret*."""
    return _ours("Tailnet", name, {"loginUrl": url, "credentials": {"secretName": secret}})


def _ours(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "tailscale.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def exposed_service(namespace: str, name: str, spec: Object, **annotations: str) -> Object:
    """Return a Service that asks to be exposed. *annotations* are as for `egress_service`."""
    return {**egress_service(namespace, name, **annotations), "spec": spec}


def ingress(namespace: str, name: str, host: str = "", **annotations: str) -> Object:
    """Return an Ingress that exposes the Service ``web`` as *host*. Without *host*, it is exposed as *name*."""
    return _within(namespace, manifests.ingress(name, host or name, **annotations))


def _within(namespace: str, obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


NOWHERE = manifests.proxy_class("nowhere", statefulSet={"pod": {"nodeSelector": {"example.org/node": "none"}}})
"""A ProxyClass whose Pods no node accepts."""


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
    """Return a Pod with one *container*, which uses the bed's base image."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": name, "image": registry.BASE, **container}],
        },
    }
