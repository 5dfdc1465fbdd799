"""What tests apply: objects for the operator, and Pods to try them from."""

from typing import Any

from tests.e2e.testbed import control, registry

# The specs of Services that lead to what `web` makes with the name "web".
TO_WEB: dict[str, Any] = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
BALANCED: dict[str, Any] = {**TO_WEB, "type": "LoadBalancer", "loadBalancerClass": "tailscale"}

PEER_NAME = f"peer.{control.DOMAIN}"
PAGE = "hello from the cluster"

Object = dict[str, Any]


def egress_service(namespace: str, name: str, **annotations: str) -> Object:
    """Return an egress Service; `tailnet_fqdn="…"` is the annotation tailscale.com/tailnet-fqdn."""
    given = {f"tailscale.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": name, "annotations": given},
        "spec": {"type": "ExternalName", "externalName": "placeholder"},
    }


def exposed_service(namespace: str, name: str, spec: Object, **annotations: str) -> Object:
    """Return a Service that the tailnet is to reach; *annotations* as for `egress_service`."""
    service = egress_service(namespace, name, **annotations)
    return {**service, "spec": spec}


def ingress(namespace: str, name: str, service: str, host: str = "", **annotations: str) -> Object:
    """Return an Ingress that shows port 80 of a Service to the tailnet as *host*, which is *name* if none is given."""
    given = {f"tailscale.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"namespace": namespace, "name": name, "annotations": given},
        "spec": {
            "ingressClassName": "tailscale",
            "defaultBackend": {"service": {"name": service, "port": {"number": 80}}},
            "tls": [{"hosts": [host or name]}],
        },
    }


def connector(name: str, **spec: Any) -> Object:
    """Return a Connector."""
    return {"apiVersion": "tailscale.com/v1alpha1", "kind": "Connector", "metadata": {"name": name}, "spec": spec}


def proxy_class(name: str, **spec: Any) -> Object:
    """Return a ProxyClass."""
    return {"apiVersion": "tailscale.com/v1alpha1", "kind": "ProxyClass", "metadata": {"name": name}, "spec": spec}


NOWHERE = proxy_class("nowhere", statefulSet={"pod": {"nodeSelector": {"example.org/node": "none"}}})
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
    return [_pod(namespace, name, {"command": ["sh", "-c", serve], "readinessProbe": probe}), service]


def client(namespace: str) -> Object:
    """Return a Pod with curl and dig."""
    return _pod(namespace, "client", {"command": ["sleep", "infinity"]})


def _pod(namespace: str, name: str, container: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": name, "image": registry.BASE, **container}],
        },
    }
