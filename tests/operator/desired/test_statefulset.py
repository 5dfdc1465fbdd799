"""The StatefulSet that runs a proxy."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import Key, Object
from tsoperator.desired.children import Owner
from tsoperator.desired.proxy import Proxy
from tsoperator.desired.proxypod import (
    ProxyPod,
    connected_networks,
    egress_to_ip,
    egress_to_name,
    exposed_name,
    served_ingress,
    served_service,
)
from tsoperator.desired.replica import Replica
from tsoperator.desired.statefulset import proxy_pod_spec, proxy_statefulset, selects
from tsoperator.desired.tailscaled import ProxyConfig

from tests.support.objects import settings
from tests.support.proxies import statefulset_of

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


def statefulset(pod: ProxyPod = BY_FQDN, live: Object | None = None, replicas: int = 1, **changes: str) -> Object:
    config = ProxyConfig("db", "https://controlplane.tailscale.com")
    proxy = Proxy(OWNER, "1234-UID", KEY, pod, config, ("tag:k8s",), replica_count=replicas)
    return statefulset_of(proxy, settings(**changes), live)


def pod_of(made: Object) -> Object:
    pod: Object = made["spec"]["template"]["spec"]
    return pod


def container_of(made: Object) -> Object:
    container: Object = pod_of(made)["containers"][0]
    return container


def environment(made: Object) -> list[tuple[str, str]]:
    """Names with values, or the paths of the fields that they come from, in order."""
    return [
        (variable["name"], variable.get("value") or variable["valueFrom"]["fieldRef"]["fieldPath"])
        for variable in container_of(made)["env"]
    ]


class Environment(NamedTuple):
    """What no recording has."""

    pod: ProxyPod
    userspace: str
    rest: list[tuple[str, str]]


SERVES = ("TS_SERVE_CONFIG", "/etc/tailscaled/$(POD_NAME)/serve-config")


@pytest.mark.parametrize(
    "case",
    [
        Environment(
            BY_IP,
            "false",
            [("TS_TAILNET_TARGET_IP", "100.66.66.66"), ("TS_INTERNAL_APP", "k8s-operator-egress-proxy")],
        ),
        Environment(
            KERNEL_INGRESS,
            "false",
            [
                ("EXPERIMENTAL_ALLOW_PROXYING_CLUSTER_TRAFFIC_VIA_INGRESS", "true"),
                SERVES,
                ("TS_INTERNAL_APP", "k8s-operator-ingress-resource"),
            ],
        ),
        Environment(
            TO_NAME,
            "false",
            [("TS_EXPERIMENTAL_DEST_DNS_NAME", "db.example.org"), ("TS_INTERNAL_APP", "k8s-operator-ingress-proxy")],
        ),
        Environment(PUBLIC, "true", [SERVES, ("TS_INTERNAL_APP", "k8s-operator-ingress-proxy")]),
    ],
)
def test_the_environment_is_in_the_images_order(case: Environment) -> None:
    assert environment(statefulset(case.pod)) == [("TS_USERSPACE", case.userspace), *COMMON, *case.rest]


@pytest.mark.parametrize(("pod", "position"), [(BY_IP, 8), (TO_NAME, 8), (PUBLIC, 8), (KERNEL_INGRESS, 9)])
def test_the_firewall_mode_comes_before_the_target(pod: ProxyPod, position: int) -> None:
    env = environment(statefulset(pod, firewall_mode="nftables"))
    assert env[position] == ("TS_DEBUG_FIREWALL_MODE", "nftables")
    assert env[position + 1][0].startswith("TS_")


@pytest.mark.parametrize(
    ("pod", "annotations"),
    [
        (BY_IP, {"tailscale.com/operator-last-set-ts-tailnet-target-ip": "100.66.66.66"}),
        (TO_NAME, {"tailscale.com/operator-last-set-cluster-dns-name": "db.example.org"}),
        (KERNEL_INGRESS, None),
        (PUBLIC, None),
    ],
)
def test_the_target_is_on_the_pod_template(pod: ProxyPod, annotations: Object | None) -> None:
    assert statefulset(pod)["spec"]["template"]["metadata"].get("annotations") == annotations


def test_a_statefulset_selects_the_pods_of_its_parent_and_not_of_one_made_anew() -> None:
    assert selects(statefulset(), "1234-UID")
    assert not selects(statefulset(), "5678-UID")
    assert not selects({"spec": {"selector": {"matchLabels": {"app": "1234-UID", "more": "x"}}}}, "1234-UID")


def test_pods_run_the_image_of_the_settings() -> None:
    made = pod_of(statefulset(proxy_image="example.org/tailscale:v1"))
    images = [made[containers][0]["image"] for containers in ("containers", "initContainers")]
    assert images == ["example.org/tailscale:v1"] * 2


def test_the_priority_class_is_on_pods_only_if_it_is_set() -> None:
    assert pod_of(statefulset(proxy_priority_class="high"))["priorityClassName"] == "high"
    assert "priorityClassName" not in pod_of(statefulset())


@pytest.mark.parametrize(
    ("pod", "privileged"), [(BY_IP, True), (KERNEL_INGRESS, True), (TO_NAME, True), (PUBLIC, False)]
)
def test_only_a_kernel_proxy_is_privileged_and_turns_forwarding_on(pod: ProxyPod, *, privileged: bool) -> None:
    made = statefulset(pod)
    rights = [{"privileged": True}] if privileged else []
    inits = pod_of(made).get("initContainers", [])
    assert [each["securityContext"] for each in inits] == rights
    assert container_of(made).get("securityContext") == (rights[0] if rights else None)
    assert [each["args"] for each in inits] == [[SCRIPT]] * privileged


@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_replica_mounts_the_secrets_of_all(count: int) -> None:
    made = statefulset(CONNECTOR, replicas=count)
    names = {f"tailscaledconfig-{number}": f"ts-db-abcde-{number}" for number in range(count)}
    mounts = [
        {"name": name, "mountPath": f"/etc/tsconfig/{secret}", "readOnly": True} for name, secret in names.items()
    ]
    assert made["spec"]["replicas"] == count
    assert pod_of(made)["volumes"] == [
        {"name": name, "secret": {"secretName": secret}} for name, secret in names.items()
    ]
    assert container_of(made)["volumeMounts"] == mounts


@pytest.mark.parametrize("pod", [KERNEL_INGRESS, PUBLIC])
def test_the_serve_config_is_mounted_after_the_config(pod: ProxyPod) -> None:
    made = statefulset(pod)
    items = [{"key": "serve-config", "path": "serve-config"}]
    secret = {"secretName": "ts-db-abcde-0", "items": items}
    mount = {"name": "serve-config-0", "mountPath": "/etc/tailscaled/ts-db-abcde-0", "readOnly": True}
    assert pod_of(made)["volumes"][1:] == [{"name": "serve-config-0", "secret": secret}]
    assert container_of(made)["volumeMounts"][1:] == [mount]


def of_two_secrets(ordinal: int) -> Replica:
    """A replica of a proxy that keeps its state apart from its config."""
    config, state = (Key("tailscale", f"egress-{ordinal}{end}") for end in ("-config", ""))
    return Replica(ordinal, config, state, f"egress-{ordinal}", ("tag:k8s",))


def test_a_config_that_is_apart_from_the_state_is_mounted_under_the_pods_name() -> None:
    made = proxy_pod_spec(BY_FQDN, [of_two_secrets(0), of_two_secrets(1)], settings(), None)
    names = ["tailscaledconfig-0", "tailscaledconfig-1"]
    assert made["volumes"] == [
        {"name": names[0], "secret": {"secretName": "egress-0-config"}},
        {"name": names[1], "secret": {"secretName": "egress-1-config"}},
    ]
    assert made["containers"][0]["volumeMounts"] == [
        {"name": names[0], "mountPath": "/etc/tsconfig/egress-0", "readOnly": True},
        {"name": names[1], "mountPath": "/etc/tsconfig/egress-1", "readOnly": True},
    ]


def test_a_serve_config_that_is_apart_from_the_state_is_mounted_under_the_pods_name() -> None:
    made = proxy_pod_spec(PUBLIC, [of_two_secrets(0)], settings(), None)
    secret = {"secretName": "egress-0-config", "items": [{"key": "serve-config", "path": "serve-config"}]}
    mount = {"name": "serve-config-0", "mountPath": "/etc/tailscaled/egress-0", "readOnly": True}
    assert made["volumes"][1] == {"name": "serve-config-0", "secret": secret}
    assert made["containers"][0]["volumeMounts"][1] == mount


def test_a_statefulset_of_several_replicas_has_the_name_that_it_is_given() -> None:
    spec = proxy_pod_spec(BY_FQDN, [of_two_secrets(0), of_two_secrets(1)], settings(), None)
    made = proxy_statefulset(Key("tailscale", "egress"), OWNER, "1234-UID", spec, 2, {"note": "x"})
    assert (made["metadata"]["name"], made["spec"]["serviceName"], made["spec"]["replicas"]) == ("egress", "egress", 2)
    assert made["spec"]["template"]["metadata"]["annotations"] == {"note": "x"}
    assert made["spec"]["template"]["spec"] == spec
    assert selects(made, "1234-UID")


def with_script(name: str, *args: str) -> Object:
    """A live StatefulSet with an init container."""
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
        (with_script("other", OLD_SCRIPT), SCRIPT),
        (None, SCRIPT),
        ({"spec": {"template": {"spec": {}}}}, SCRIPT),
        ({"spec": {"template": {"spec": {"initContainers": None}}}}, SCRIPT),
    ],
)
def test_a_live_script_that_does_the_same_stays(live: Object | None, script: str) -> None:
    assert pod_of(statefulset(live=live))["initContainers"][0]["args"] == [script]
