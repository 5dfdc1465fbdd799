"""What users apply: the objects that the loop tests put into a cluster."""

from typing import Any

from tsoperator.api.names import ANNOTATION_TAILNET_FQDN, ANNOTATION_TAILNET_IP
from tsoperator.api.objects import DNSCONFIG, INGRESS, PROXYCLASS, SERVICE, Object, Resource

DOMAIN = "tail1234.ts.net"
FQDN = f"db.{DOMAIN}"


def egress(name: str = "db", target: str = FQDN, **annotations: str) -> Object:
    """Return a Service that leads to *target*, a MagicDNS name or a tailnet address.

    Further *annotations* are written without ``tailscale.com/`` and with ``_`` for ``-``.
    """
    kind = ANNOTATION_TAILNET_IP if target.replace(".", "").isdigit() else ANNOTATION_TAILNET_FQDN
    more = {f"tailscale.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    obj = _object(SERVICE, name, {"type": "ExternalName", "externalName": "placeholder"})
    obj["metadata"]["annotations"] = ({kind: target} if target else {}) | more
    return obj


def backend(name: str = "web", **spec: Any) -> Object:
    """Return a Service of the cluster with a cluster IP and port 80."""
    return _object(SERVICE, name, {"ports": [{"name": "http", "port": 80}], "selector": {"app": name}, **spec})


def ingress(name: str = "web", host: str = "web", **annotations: str) -> Object:
    """Return an Ingress of our class for the backend ``web``; *annotations* as for `egress`."""
    service = {"name": "web", "port": {"number": 80}}
    spec = {"ingressClassName": "tailscale", "defaultBackend": {"service": service}, "tls": [{"hosts": [host]}]}
    obj = _object(INGRESS, name, spec)
    obj["metadata"]["annotations"] = {f"tailscale.com/{key.replace('_', '-')}": to for key, to in annotations.items()}
    return obj


def dnsconfig(name: str = "dns", **nameserver: Any) -> Object:
    """Return a DNSConfig."""
    obj = _object(DNSCONFIG, name, {"nameserver": nameserver})
    del obj["metadata"]["namespace"]
    return obj


def proxy_class(name: str = "prod", **spec: Any) -> Object:
    """Return a ProxyClass."""
    obj = _object(PROXYCLASS, name, spec)
    del obj["metadata"]["namespace"]
    return obj


def _object(resource: Resource, name: str, spec: Object) -> Object:
    metadata: Object = {"namespace": "default", "name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
