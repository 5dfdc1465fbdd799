"""Annotations and specs of users' Services, and a Service that names a ProxyGroup, for the tests of this folder."""

from typing import Any

from tsoperator.api.objects import Object

from tests.support.objects import FQDN, egress_service

FQDN_KEY = "tailscale.com/tailnet-fqdn"
IP_KEY = "tailscale.com/tailnet-ip"
OLD_IP_KEY = "tailscale.com/ts-tailnet-target-ip"
GROUP_KEY = "tailscale.com/proxy-group"
EGRESS = {FQDN_KEY: FQDN}
EXPOSE = {"tailscale.com/expose": "true"}
FUNNEL = {"tailscale.com/funnel": "true"}
OPT_OUT = {"tailscale.com/cluster-dns": "false"}
CLASS = {"tailscale.com/proxy-class": "prod"}
GROUP = {GROUP_KEY: "egress"}
NO_GROUP = {GROUP_KEY: ""}
BY_NAME = {"type": "ExternalName", "externalName": "db.example.org"}
CLUSTER_IP = {"type": "ClusterIP", "clusterIP": "192.0.2.4"}
HEADLESS = {**CLUSTER_IP, "clusterIP": "None"}
LOAD_BALANCER = {**CLUSTER_IP, "type": "LoadBalancer", "loadBalancerClass": "tailscale"}
OF_OTHERS = {**LOAD_BALANCER, "loadBalancerClass": "other"}
PUBLIC = {**LOAD_BALANCER, "ports": [{"port": 443, "protocol": "TCP"}]}


def user_service(annotations: Object | None = None, spec: Object | None = None, **metadata: Any) -> Object:
    """Return a user's Service with one port. Without *annotations*, it is an egress Service that names the group."""
    given = EGRESS | GROUP if annotations is None else annotations
    content = {"type": "ExternalName", "externalName": "placeholder", "ports": [{"port": 5432, "protocol": "TCP"}]}
    return egress_service(given, spec=content | (spec or {}), **metadata)
