"""The objects that the benchmark creates, as the users of an operator would."""

from tsoperator.api.names import ANNOTATION_TAILNET_FQDN, LABEL_SERVICE_NAME, LOAD_BALANCER_CLASS, PROXY_GROUP
from tsoperator.api.objects import (
    DNSCONFIG,
    ENDPOINTSLICE,
    INGRESS,
    INGRESSCLASS,
    PROXYGROUP,
    SERVICE,
    Object,
    Resource,
)

from operatorbench.ground import DOMAIN

INGRESS_CLASS = "tailscale"

USERS = "bench"
"""The namespace of the users' objects."""


def egress_service(name: str, group: str = "") -> Object:
    """Return a Service that leads to the device called *name*, through the ProxyGroup *group* if it isn't empty."""
    annotations = {ANNOTATION_TAILNET_FQDN: f"{name}.{DOMAIN}"} | ({PROXY_GROUP: group} if group else {})
    metadata = {"namespace": USERS, "name": name, "annotations": annotations}
    ports = {"ports": [{"port": 5432, "protocol": "TCP"}]} if group else {}
    return _object(SERVICE, metadata, {"type": "ExternalName", "externalName": "placeholder", **ports})


def proxy_group(name: str, replicas: int, type_: str) -> Object:
    """Return a ProxyGroup of the type *type_* with *replicas* replicas."""
    return _object(PROXYGROUP, {"name": name}, {"type": type_, "replicas": replicas})


def backend(name: str) -> Object:
    """Return a Service that isn't exposed to the tailnet; an Ingress can lead to it."""
    return _object(SERVICE, {"namespace": USERS, "name": name}, {"ports": _HTTP})


def exposed_service(name: str, group: str) -> Object:
    """Return a Service that the ProxyGroup *group* exposes to the tailnet."""
    metadata = {"namespace": USERS, "name": name, "annotations": {PROXY_GROUP: group}}
    balanced = {"loadBalancerClass": LOAD_BALANCER_CLASS, "allocateLoadBalancerNodePorts": False}
    return _object(SERVICE, metadata, {"type": "LoadBalancer", **balanced, "ports": _HTTP})


def exposed_ingress(name: str, service: str, group: str) -> Object:
    """Return an Ingress in front of *service*. The ProxyGroup *group* exposes the Ingress to the tailnet by HTTPS."""
    metadata = {"namespace": USERS, "name": name, "annotations": {PROXY_GROUP: group}}
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}}}
    rules = {"tls": [{"hosts": [name]}], "rules": [{"http": {"paths": [path]}}]}
    return _object(INGRESS, metadata, {"ingressClassName": INGRESS_CLASS, **rules})


def ingress_class() -> Object:
    """Return the IngressClass of the Ingresses that a tailnet operator exposes."""
    return _object(INGRESSCLASS, {"name": INGRESS_CLASS}, {"controller": "tailscale.com/ts-ingress"})


def endpoint_slice(service: str, address: str) -> Object:
    """Return an EndpointSlice of a Service, with one endpoint, which is ready."""
    metadata = {"namespace": USERS, "name": f"{service}-1", "labels": {LABEL_SERVICE_NAME: service}}
    endpoints = [{"addresses": [address], "conditions": {"ready": True}}]
    return {
        "apiVersion": ENDPOINTSLICE.api_version,
        "kind": ENDPOINTSLICE.kind,
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"port": 8080, "protocol": "TCP"}],
    }


def dnsconfig() -> Object:
    """Return a DNSConfig without settings, so that the operator's defaults apply."""
    return _object(DNSCONFIG, {"name": "dns"}, {"nameserver": {}})


_HTTP = [{"port": 80, "protocol": "TCP"}]


def _object(resource: Resource, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
