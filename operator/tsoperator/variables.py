"""The environment variables with the operator's settings: their names, and their descriptions in ``--help``."""

import textwrap
from collections.abc import Mapping
from typing import Final

VARIABLES: Final[Mapping[str, str]] = {
    "CLIENT_ID_FILE": "file with the ID of the OAuth client (required without CLIENT_ID)",
    "CLIENT_SECRET_FILE": "file with the secret of the OAuth client (required without CLIENT_ID)",
    "CLIENT_ID": (
        "workload identity: the ID of a client that trusts this cluster's ServiceAccount tokens, in place of the files"
    ),
    "OPERATOR_NAMESPACE": "namespace of the proxies (default: the Pod's own)",
    "OPERATOR_WATCH_NAMESPACES": (
        "namespaces of users' objects besides the operator's own, comma-separated (default: all)"
    ),
    "OPERATOR_LOGIN_SERVER": "URL of the control server, e.g. of Headscale (default: Tailscale's)",
    "OPERATOR_LOGGING": "info, debug, warn, error, or dev, which is debug as text (default info)",
    "OPERATOR_LOG_FORMAT": (
        "text, or json: one object a line, with level, ts, logger and msg; the nameserver's log, too (default text)"
    ),
    "OPERATOR_INGRESS_CLASS_NAME": "ingress class to serve (default tailscale)",
    "OPERATOR_SHARED_ACME_ACCOUNT_KEY": (
        "true: ProxyGroups of type ingress share one ACME account, which needs an image of 1.103 (default false)"
    ),
    "OPERATOR_DEFAULT_LOAD_BALANCER": (
        "true: the operator also exposes LoadBalancer Services that name no class (default false)"
    ),
    "OPERATOR_TAKE_OVER_NAMES": (
        "true: a new proxy takes the name of an offline device with the same tags, and that device is deleted: for "
        "clusters that are rebuilt (default false)"
    ),
    "OPERATOR_DNS_ENABLED": (
        "true: where the cluster has no DNSConfig, the operator makes one with mode Managed; otherwise it removes the "
        "one that it has made (default false)"
    ),
    "OPERATOR_DNS_ZONES": "zones of MagicDNS names, comma-separated (default: as the devices show)",
    "OPERATOR_CLUSTER_DNS": "DNS servers that Pods ask, comma-separated (default: those of this Pod's resolv.conf)",
    "OPERATOR_CLUSTER_DNS_CONFIGMAP": (
        "ConfigMap in kube-system with CoreDNS's Corefile (default: coredns, or the one that its Pods mount)"
    ),
    "OPERATOR_NAMESERVER_IMAGE": "image for a DNSConfig that names none (default tailscale/k8s-nameserver:stable)",
    "OPERATOR_NAMESERVER_LOG_QUERIES": "share of the queries that the nameserver logs, e.g. 1/1000 (default: none)",
    "OPERATOR_MANAGE_CLUSTER_DNS": (
        "true: the operator has the rights to write the stub domain of a DNSConfig into the cluster's DNS (default "
        "false)"
    ),
    "OPERATOR_LEADER_ELECTION": "true or false (default true)",
    "OPERATOR_HEALTH_ADDR": "ADDRESS:PORT of probes and metrics (default :9002; set but empty: off)",
    "OPERATOR_STATUS_ADDR": (
        "ADDRESS:PORT of the page and the JSON that show each object (default 127.0.0.1:9003; set but empty: off)"
    ),
    "OPERATOR_SERVICE_ACCOUNT_NAME": (
        "name of our ServiceAccount: Tailnets with workload identity trust its tokens, and ProxyGroupPolicies let it "
        "write (default operator)"
    ),
    "OPERATOR_SECRET": (
        "Secret with the state of the operator's own device, which owns Tailscale Services and serves the API server "
        "(default: none)"
    ),
    "OPERATOR_HOSTNAME": "hostname of that device (default tailscale-operator)",
    "OPERATOR_INITIAL_TAGS": "tags of that device when it is registered, comma-separated (default tag:k8s-operator)",
    "PROXY_IMAGE": "image of proxies (default tailscale/tailscale:latest)",
    "PROXY_TAGS": "tags of proxies that ask for none, comma-separated (default tag:k8s)",
    "PROXY_FIREWALL_MODE": "auto, iptables or nftables, for proxies (default: the image decides)",
    "PROXY_PRIORITY_CLASS_NAME": "priority class of proxies (default: none)",
    "PROXY_DEFAULT_CLASS": "ProxyClass of Services, Ingresses and ProxyGroups that name none (default: none)",
    "PROXY_CA_BUNDLE": "ConfigMap in the operator's namespace whose ca.crt has CAs that proxies trust (default: none)",
    "K8S_PROXY_IMAGE": (
        "image of ProxyGroups of type kube-apiserver (default tailscale/k8s-proxy, with the tag of PROXY_IMAGE)"
    ),
    "RECORDER_IMAGE": "image of Recorders (default tailscale/tsrecorder, with the tag of PROXY_IMAGE)",
    "APISERVER_PROXY": (
        "true: the operator's own device serves the API server to the tailnet, where callers have their names in the "
        "tailnet; noauth: they log in to the API server themselves (default false)"
    ),
    "APISERVER_PROXY_HTTP": "true: that device answers plain HTTP, too, for tailnets without HTTPS (default false)",
    "AUTH_PROXY": "older name of APISERVER_PROXY: true or false (default false)",
    "OPERATOR_IMAGE": "image of the operator, which is that of the API server proxy, too (required for that proxy)",
    "TS_PORT": "UDP port at which the device of the API server proxy listens (default 41641)",
    "POD_NAME": "this Pod's name, in its Lease and Events",
    "KUBECONFIG": "outside a cluster: how to reach the API server",
}
"""The meaning of each environment variable, in at most two lines."""

_INDENT: Final = 35
_WIDTH: Final = 116


def help_lines() -> str:
    """Return the variables as lines of help, each with its meaning in a second column."""
    return "\n".join(_entry(name, meaning) for name, meaning in VARIABLES.items())


def _entry(name: str, meaning: str) -> str:
    return textwrap.fill(
        meaning,
        width=_WIDTH,
        initial_indent=f"  {name}".ljust(_INDENT),
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
    )
