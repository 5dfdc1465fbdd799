"""Annotations and specs of users' Services, for the tables of this folder."""

from tests.support.objects import FQDN

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
