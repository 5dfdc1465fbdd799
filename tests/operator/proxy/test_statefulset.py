"""The StatefulSet that runs a proxy."""

import pytest
from tsoperator.api.objects import Key, Object
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.proxypod import (
    ProxyPod,
    connected_networks,
    egress_to_ip,
    egress_to_name,
    exposed_name,
    served_ingress,
    served_service,
)
from tsoperator.proxy.statefulset import selects, standalone_statefulset
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.runtime.ownership import Owner

from tests.support.objects import settings
from tests.support.proxies import container_of, pods_of

KEY = Key("tailscale", "ts-db-abcde")
OWNER = Owner("svc", Key("default", "db"))
BY_FQDN = egress_to_name("db.tail1234.ts.net.")
BY_IP = egress_to_ip("100.66.66.66")
KERNEL_INGRESS = served_ingress(forward_cluster_traffic=True)
TO_NAME = exposed_name("db.example.org")
PUBLIC = served_service()
CONNECTOR = connected_networks()
SCRIPT = (
    "echo 1 > /proc/sys/net/ipv4/ip_forward && if [ -e /proc/sys/net/ipv6/conf/all/forwarding ]; "
    "then echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; fi"
)
OLD_SCRIPT = (
    "sysctl -w net.ipv4.ip_forward=1 && if sysctl net.ipv6.conf.all.forwarding; "
    "then sysctl -w net.ipv6.conf.all.forwarding=1; fi"
)
COMMON = [
    ("POD_IP", "status.podIP"),
    ("POD_NAME", "metadata.name"),
    ("POD_UID", "metadata.uid"),
    ("TS_KUBE_SECRET", "$(POD_NAME)"),
    ("TS_EXPERIMENTAL_SERVICE_AUTO_ADVERTISEMENT", "false"),
    ("TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR", "/etc/tsconfig/$(POD_NAME)"),
    ("TS_DEBUG_ACME_FORCE_RENEWAL", "true"),
]


def statefulset(
    pod: ProxyPod = BY_FQDN, live: Object | None = None, replicas: int = 1, config_suffix: str = "", **changes: str
) -> Object:
    config = ProxyConfig("db", "https://controlplane.tailscale.com")
    proxy = Proxy(
        OWNER, "1234-UID", KEY, pod, config, ("tag:k8s",), replica_count=replicas, config_suffix=config_suffix
    )
    return standalone_statefulset(proxy, settings(**changes), live)


def environment(made: Object) -> list[tuple[str, str]]:
    """Return the environment variables of the container in *made* as pairs of name and value, in order.

    If a variable has its value from a field of the Pod, the path of the field is in place of the value.
    """
    return [
        (variable["name"], variable.get("value") or variable["valueFrom"]["fieldRef"]["fieldPath"])
        for variable in container_of(made)["env"]
    ]


SERVES = ("TS_SERVE_CONFIG", "/etc/tailscaled/$(POD_NAME)/serve-config")
FORWARDS = ("EXPERIMENTAL_ALLOW_PROXYING_CLUSTER_TRAFFIC_VIA_INGRESS", "true")
IP_TARGET = {"tailscale.com/operator-last-set-ts-tailnet-target-ip": "100.66.66.66"}
NAME_TARGET = {"tailscale.com/operator-last-set-cluster-dns-name": "db.example.org"}


@pytest.mark.parametrize(
    ("pod", "target", "app", "annotations"),
    [
        (BY_IP, [("TS_TAILNET_TARGET_IP", "100.66.66.66")], "k8s-operator-egress-proxy", IP_TARGET),
        (KERNEL_INGRESS, [FORWARDS, SERVES], "k8s-operator-ingress-resource", None),
        (TO_NAME, [("TS_EXPERIMENTAL_DEST_DNS_NAME", "db.example.org")], "k8s-operator-ingress-proxy", NAME_TARGET),
        (PUBLIC, [SERVES], "k8s-operator-ingress-proxy", None),
    ],
)
def test_each_kind_of_pod_has_its_variables_in_order_and_the_rights_that_its_mode_needs(
    pod: ProxyPod, target: list[tuple[str, str]], app: str, annotations: Object | None
) -> None:
    made = statefulset(pod)
    userspace, rights = ("true", []) if pod is PUBLIC else ("false", [{"privileged": True}])
    assert environment(made) == [("TS_USERSPACE", userspace), *COMMON, *target, ("TS_INTERNAL_APP", app)]
    assert made["spec"]["template"]["metadata"].get("annotations") == annotations
    inits = pods_of(made).get("initContainers", [])
    assert [each["securityContext"] for each in inits] == rights
    assert container_of(made).get("securityContext") == (rights[0] if rights else None)
    assert [each["args"] for each in inits] == [[SCRIPT]] * len(rights)


@pytest.mark.parametrize(("pod", "position"), [(BY_IP, 8), (TO_NAME, 8), (PUBLIC, 8), (KERNEL_INGRESS, 9)])
def test_the_variable_for_the_firewall_mode_comes_before_those_for_the_target(pod: ProxyPod, position: int) -> None:
    env = environment(statefulset(pod, firewall_mode="nftables"))
    assert env[position] == ("TS_DEBUG_FIREWALL_MODE", "nftables")
    assert env[position + 1][0].startswith("TS_")


def test_a_statefulset_selects_the_pods_of_its_parent_and_not_those_of_a_recreated_parent() -> None:
    assert selects(statefulset(), "1234-UID")
    assert not selects(statefulset(), "5678-UID")
    assert not selects({"spec": {"selector": {"matchLabels": {"app": "1234-UID", "more": "x"}}}}, "1234-UID")


def test_pods_have_the_image_and_the_priority_class_of_the_settings() -> None:
    made = pods_of(statefulset(proxy_image="example.org/tailscale:v1", proxy_priority_class="high"))
    images = [made[containers][0]["image"] for containers in ("containers", "initContainers")]
    assert (images, made["priorityClassName"]) == (["example.org/tailscale:v1"] * 2, "high")
    assert "priorityClassName" not in pods_of(statefulset())


def volume(name: str, secret: str, **more: object) -> Object:
    return {"name": name, "secret": {"secretName": secret, **more}}


def mount(name: str, path: str) -> Object:
    return {"name": name, "mountPath": path, "readOnly": True}


SERVED = {"items": [{"key": "serve-config", "path": "serve-config"}]}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_replica_mounts_the_secrets_of_all_replicas(count: int) -> None:
    made = statefulset(CONNECTOR, replicas=count)
    names = [(f"tailscaledconfig-{number}", f"ts-db-abcde-{number}") for number in range(count)]
    assert made["spec"]["replicas"] == count
    assert pods_of(made)["volumes"] == [volume(name, secret) for name, secret in names]
    assert container_of(made)["volumeMounts"] == [mount(name, f"/etc/tsconfig/{secret}") for name, secret in names]


def test_separate_config_secrets_are_mounted_under_the_names_of_the_pods() -> None:
    made = pods_of(statefulset(PUBLIC, replicas=2, config_suffix="-config"))
    assert made["volumes"] == [
        volume("tailscaledconfig-0", "ts-db-abcde-0-config"),
        volume("tailscaledconfig-1", "ts-db-abcde-1-config"),
        volume("serve-config-0", "ts-db-abcde-0-config", **SERVED),
    ]
    assert made["containers"][0]["volumeMounts"] == [
        mount("tailscaledconfig-0", "/etc/tsconfig/ts-db-abcde-0"),
        mount("tailscaledconfig-1", "/etc/tsconfig/ts-db-abcde-1"),
        mount("serve-config-0", "/etc/tailscaled/ts-db-abcde-0"),
    ]


def with_script(name: str, *args: str) -> Object:
    return {"spec": {"template": {"spec": {"initContainers": [{"name": name, "args": [*args]}]}}}}


NEWER_SCRIPT = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"


@pytest.mark.parametrize(
    ("live", "script"),
    [
        (with_script("sysctler", NEWER_SCRIPT), NEWER_SCRIPT),
        (with_script("sysctler", OLD_SCRIPT), OLD_SCRIPT),
        (with_script("sysctler", "true"), SCRIPT),
        (with_script("sysctler", "sysctl -w net.ipv4.ip_forward=1"), SCRIPT),
        (with_script("sysctler"), SCRIPT),
        (with_script("other", NEWER_SCRIPT), SCRIPT),
        (None, SCRIPT),
        ({"spec": {"template": {"spec": {}}}}, SCRIPT),
        ({"spec": {"template": {"spec": {"initContainers": None}}}}, SCRIPT),
    ],
)
def test_a_statefulset_keeps_an_init_script_that_has_the_same_effect_as_the_script_of_the_operator(
    live: Object | None, script: str
) -> None:
    assert pods_of(statefulset(live=live))["initContainers"][0]["args"] == [script]
