"""The objects of users: those that the loop tests put into a cluster."""

from collections.abc import Mapping
from typing import Any

from tsoperator.api.names import ANNOTATION_TAILNET_FQDN, ANNOTATION_TAILNET_IP, AUTH_PROXY_SERVICE_ACCOUNT
from tsoperator.api.objects import (
    CONNECTOR,
    DNSCONFIG,
    INGRESS,
    PEERRELAY,
    POD,
    PROXYCLASS,
    PROXYGROUP,
    PROXYGROUPPOLICY,
    RECORDER,
    SECRET,
    SERVICE,
    SERVICEACCOUNT,
    TAILNET,
    Object,
    Resource,
)

DOMAIN = "tail1234.ts.net"
FQDN = f"db.{DOMAIN}"


def egress(name: str = "db", target: str = FQDN, **annotations: str) -> Object:
    """Return a Service that leads to *target*, a MagicDNS name or a tailnet address.

    The names of further *annotations* lack the prefix ``tailscale.com/``, and have ``_`` for ``-``.
    """
    kind = ANNOTATION_TAILNET_IP if target.replace(".", "").isdigit() else ANNOTATION_TAILNET_FQDN
    obj = _object(SERVICE, name, {"type": "ExternalName", "externalName": "placeholder"})
    obj["metadata"]["annotations"] = ({kind: target} if target else {}) | _named(annotations)
    return obj


def group_egress(name: str = "db", group: str = "pg", target: str = FQDN, *ports: int, **annotations: str) -> Object:
    """Return a Service that leads to *target* through the ProxyGroup *group*, at TCP *ports* (5432 by default)."""
    obj = egress(name, target, proxy_group=group, **annotations)
    obj["spec"]["ports"] = [{"name": f"port-{port}", "port": port} for port in ports or (5432,)]
    return obj


def proxy_group(name: str = "pg", **spec: Any) -> Object:
    """Return a ProxyGroup of type egress with two replicas, unless *spec* says otherwise."""
    return _object(PROXYGROUP, name, {"type": "egress", **spec})


def peer_relay(name: str = "relay", **spec: Any) -> Object:
    """Return a PeerRelay: with one replica unless *spec* says otherwise."""
    return _object(PEERRELAY, name, spec)


def group_policy(name: str = "mine", namespace: str = "default", **spec: Any) -> Object:
    """Return a ProxyGroupPolicy, which allows nothing unless *spec* says otherwise."""
    obj = _object(PROXYGROUPPOLICY, name, spec)
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def recorder(name: str = "rec", **spec: Any) -> Object:
    """Return a Recorder with one replica that serves its recordings, unless *spec* says otherwise."""
    return _object(RECORDER, name, {"enableUI": True, **spec})


def tailnet(name: str = "other", login_url: str = "", secret: str = "other-credentials") -> Object:
    """Return a Tailnet whose control server is at *login_url*, with the credentials in *secret*."""
    spec: Object = {"credentials": {"secretName": secret}}
    return _object(TAILNET, name, spec | ({"loginUrl": login_url} if login_url else {}))


def credentials(name: str = "other-credentials", **values: str) -> Object:
    """Return a Secret in the operator's namespace with *values*, such as ``client_id``."""
    metadata = {"namespace": "tailscale", "name": name}
    kind = {"apiVersion": SECRET.api_version, "kind": SECRET.kind}
    return {**kind, "metadata": metadata, "stringData": values}


def identity(node_id: str = "nOP") -> Object:
    """Return the Secret with the state of an operator's own device, which has the ID *node_id*."""
    return credentials(
        "operator", **{"_current-profile": "profile-a", "profile-a": f'{{"Config":{{"NodeID":"{node_id}"}}}}'}
    )


def auth_proxy_account() -> Object:
    """Return the ServiceAccount that the chart makes for proxies which impersonate users."""
    metadata = {"namespace": "tailscale", "name": AUTH_PROXY_SERVICE_ACCOUNT}
    return {"apiVersion": SERVICEACCOUNT.api_version, "kind": SERVICEACCOUNT.kind, "metadata": metadata}


def user_pod(name: str) -> Object:
    """Return a Pod of a user with the label ``app``, which Services can select."""
    obj = _object(POD, name, {"containers": [{"name": "app", "image": "example.org/app:1"}]})
    return {**obj, "metadata": {**obj["metadata"], "labels": {"app": name}}}


def backend(name: str = "web", **spec: Any) -> Object:
    """Return a Service of the cluster with a cluster IP and port 80."""
    return _object(SERVICE, name, {"ports": [{"name": "http", "port": 80}], "selector": {"app": name}, **spec})


def load_balancer(name: str = "lb", *ports: int, class_: str | None = "tailscale", **annotations: str) -> Object:
    """Return a LoadBalancer Service of our class with *ports*, 80 if there are none; *annotations* as for `egress`."""
    listed = [{"name": f"port-{port}", "port": port} for port in ports or (80,)]
    spec = {"type": "LoadBalancer", "ports": listed, "selector": {"app": name}}
    obj = _object(SERVICE, name, spec | ({"loadBalancerClass": class_} if class_ else {}))
    obj["metadata"]["annotations"] = _named(annotations)
    return obj


def exposed(name: str = "lb", external_name: str = "", **annotations: str) -> Object:
    """Return a Service with the annotation that exposes its cluster IP or, if given, its external name."""
    obj = _object(SERVICE, name, {"type": "ExternalName", "externalName": external_name})
    obj = obj if external_name else backend(name)
    obj["metadata"]["annotations"] = _named({"expose": "true", **annotations})
    return obj


def ingress(name: str = "web", host: str = "web", **annotations: str) -> Object:
    """Return an Ingress of our class for the backend ``web``; *annotations* as for `egress`."""
    service = {"name": "web", "port": {"number": 80}}
    spec = {"ingressClassName": "tailscale", "defaultBackend": {"service": service}, "tls": [{"hosts": [host]}]}
    obj = _object(INGRESS, name, spec)
    obj["metadata"]["annotations"] = _named(annotations)
    return obj


def dnsconfig(name: str = "dns", **nameserver: Any) -> Object:
    """Return a DNSConfig with *nameserver* as the fields of ``spec.nameserver``."""
    return _object(DNSCONFIG, name, {"nameserver": nameserver})


def connector(name: str = "router", **spec: Any) -> Object:
    """Return a Connector: a subnet router unless *spec* says otherwise."""
    return _object(CONNECTOR, name, spec or {"subnetRouter": {"advertiseRoutes": ["10.40.0.0/14"]}})


def proxy_class(name: str = "prod", **spec: Any) -> Object:
    """Return a ProxyClass with *spec*."""
    return _object(PROXYCLASS, name, spec)


def _named(annotations: Mapping[str, str]) -> dict[str, str]:
    return {f"tailscale.com/{key.replace('_', '-')}": value for key, value in annotations.items()}


def _object(resource: Resource, name: str, spec: Object) -> Object:
    metadata = {"name": name, **({"namespace": "default"} if resource.namespaced else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def annotated(**annotations: str | None) -> Object:
    """Return the patch that sets *annotations*, with names as for `egress`, or removes those that are None."""
    named = {f"tailscale.com/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {"metadata": {"annotations": named}}
