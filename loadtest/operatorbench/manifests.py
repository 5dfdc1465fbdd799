"""The objects that the benchmark makes for operators."""

from tsoperator.api.names import ANNOTATION_TAILNET_FQDN, PROXY_GROUP
from tsoperator.api.objects import DNSCONFIG, PROXYGROUP, SERVICE, Object, Resource

from operatorbench.ground import DOMAIN

USERS = "bench"
"""The namespace of the Services."""


def egress_service(name: str, group: str = "") -> Object:
    """Return a Service that leads to the device of its *name*, through the ProxyGroup *group* if one is given."""
    annotations = {ANNOTATION_TAILNET_FQDN: f"{name}.{DOMAIN}"} | ({PROXY_GROUP: group} if group else {})
    metadata = {"namespace": USERS, "name": name, "annotations": annotations}
    ports = {"ports": [{"port": 5432, "protocol": "TCP"}]} if group else {}
    return _object(SERVICE, metadata, {"type": "ExternalName", "externalName": "placeholder", **ports})


def proxy_group(name: str, replicas: int) -> Object:
    """Return a ProxyGroup for egress."""
    return _object(PROXYGROUP, {"name": name}, {"type": "egress", "replicas": replicas})


def dnsconfig() -> Object:
    """Return a DNSConfig without settings, so that the operator's defaults apply."""
    return _object(DNSCONFIG, {"name": "dns"}, {"nameserver": {}})


def _object(resource: Resource, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
