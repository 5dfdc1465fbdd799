"""The StatefulSet of a ProxyGroup of type egress."""

from typing import Any

import pytest
from tsoperator.api.objects import SERVICE, Key, Object
from tsoperator.group.grouptype import EGRESS
from tsoperator.proxy.proxy import Children
from tsoperator.reconcilers.proxygroup.plan import Observed
from tsoperator.reconcilers.proxygroup.statefulset import group_statefulset
from tsoperator.runtime.diff import to_create, write_for
from tsoperator.settings import Settings

from tests.operator.reconcilers.proxygroup.groups import OWNED, OWNER, SETTINGS, live_group, proxy_of
from tests.support.objects import live_proxy_class, obj, settings, stored
from tests.support.proxies import container_of, pods_of

METRICS = {"metrics": {"enable": True}}
DEBUG = {"statefulSet": {"pod": {"tailscaleContainer": {"debug": {"enable": True}}}}}
ELSEWHERE = {"name": "TS_LOCAL_ADDR_PORT", "value": "[::]:9003"}
MOVED = {"statefulSet": {"pod": {"tailscaleContainer": {"env": [ELSEWHERE]}}}}
GATES = [{"conditionType": "tailscale.com/egress-services"}]


def made(
    spec: Object | None = None,
    class_: Object | None = None,
    live: Object | None = None,
    of: Settings = SETTINGS,
    **given: Any,
) -> Object | None:
    group = live_group({**(spec or {}), **({"proxyClass": "prod"} if class_ is not None else {})})
    found = live_proxy_class(spec=class_, ready=True) if class_ is not None else None
    proxy = proxy_of(group, Observed(Children(), proxy_class=found), of)
    there = Children(statefulsets=[live] if live else [], **given)
    return group_statefulset(EGRESS, proxy, of, there)


def whole(*args: Any, **given: Any) -> Object:
    found = made(*args, **given)
    assert found is not None
    return found


def environment(statefulset: Object) -> dict[str, str]:
    found = container_of(statefulset)["env"]
    return {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in found}


def test_the_statefulset_of_a_group_has_the_name_and_the_labels_that_the_go_operator_gives() -> None:
    statefulset, labels = whole(), OWNER.labels
    named = {"namespace": "tailscale", "name": "foo", "labels": labels}
    assert statefulset["metadata"] == {**named, **OWNED}
    template = statefulset["spec"]["template"]
    assert statefulset["spec"] == {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    assert template["metadata"] == {**named, "deletionGracePeriodSeconds": 360}
    assert list(labels) == [f"tailscale.com/{name}" for name in ("managed", "parent-resource", "parent-resource-type")]


def test_the_pods_of_a_group_mount_all_configs_and_the_configmap() -> None:
    spec = pods_of(whole())
    assert (spec["serviceAccountName"], spec["readinessGates"]) == ("foo", GATES)
    assert spec["terminationGracePeriodSeconds"] == 60
    assert spec["volumes"] == [
        *({"name": f"tailscaledconfig-{each}", "secret": {"secretName": f"foo-{each}-config"}} for each in (0, 1)),
        {"name": "foo-egress-config", "configMap": {"name": "foo-egress-config"}},
    ]
    paths = [(each["name"], each["mountPath"], each["readOnly"]) for each in spec["containers"][0]["volumeMounts"]]
    assert paths == [
        *((f"tailscaledconfig-{each}", f"/etc/tsconfig/foo-{each}", True) for each in (0, 1)),
        ("foo-egress-config", "/etc/proxies", True),
    ]


def test_the_container_of_a_groups_proxy_drains_its_connections_before_it_ends() -> None:
    found = container_of(whole(of=settings(proxy_image="example.org/proxy:v1")))
    drain = {"preStop": {"httpGet": {"path": "/internal-egress-services-preshutdown", "port": 9002}}}
    assert {name: value for name, value in found.items() if name not in ("env", "volumeMounts")} == {
        "name": "tailscale",
        "image": "example.org/proxy:v1",
        "imagePullPolicy": "Always",
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": {"privileged": True},
        "lifecycle": drain,
    }


ENVIRONMENT = {
    "TS_USERSPACE": "false",
    "POD_IP": "status.podIP",
    "POD_NAME": "metadata.name",
    "POD_UID": "metadata.uid",
    "POD_IPS": "status.podIPs",
    "TS_KUBE_SECRET": "$(POD_NAME)",
    "TS_EXPERIMENTAL_SERVICE_AUTO_ADVERTISEMENT": "false",
    "TS_STATE": "kube:$(POD_NAME)",
    "TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR": "/etc/tsconfig/$(POD_NAME)",
    "TS_DEBUG_FIREWALL_MODE": "auto",
    "TS_EGRESS_SERVICES_CONFIG_PATH": "/etc/proxies/egress-services",
    "TS_EGRESS_PROXIES_CONFIG_PATH": "/etc/proxies",
    "TS_INTERNAL_APP": "k8s-operator-proxygroup-egress",
    "TS_ENABLE_HEALTH_CHECK": "true",
}


def test_the_variables_of_a_groups_proxies_are_in_the_order_that_the_image_expects() -> None:
    assert list(environment(whole()).items()) == list(ENVIRONMENT.items())
    assert "TS_DEBUG_FIREWALL_MODE" not in environment(whole(of=settings()))


SHRUNK = {"3 to 1": (3, 1, 3), "1": (1, 1, 1), "0 to 1": (0, 1, 1), "3 to 2": (3, 2, 2), "3 to 0": (3, 0, 0)}


@pytest.mark.parametrize(("before", "after", "mounted"), SHRUNK.values(), ids=SHRUNK)
def test_the_only_remaining_pod_of_a_group_that_shrinks_keeps_its_volumes(
    before: int, after: int, mounted: int
) -> None:
    found = whole({"replicas": after}, live=live(whole({"replicas": before})))
    wanted = [*(f"tailscaledconfig-{ordinal}" for ordinal in range(mounted)), "foo-egress-config"]
    assert [each["name"] for each in pods_of(found)["volumes"]] == wanted
    assert [each["name"] for each in container_of(found)["volumeMounts"]] == wanted
    assert found["spec"]["replicas"] == after


def test_the_pods_of_a_group_do_not_drain_if_the_class_moves_the_health_port() -> None:
    statefulset = whole(class_=MOVED)
    assert not {"readinessGates", "terminationGracePeriodSeconds"} & pods_of(statefulset).keys()
    assert "lifecycle" not in container_of(statefulset)
    assert statefulset["spec"]["template"]["metadata"]["deletionGracePeriodSeconds"] == 10


def live(statefulset: Object, *, digest: str | None = None, **changes: Any) -> Object:
    """Return *statefulset* as it is stored, with *changes* of the spec of its Pods and with an annotation *digest*.

    In *changes*, None removes a field. Without a *digest*, the annotation is missing.
    """
    pods = {name: value for name, value in (pods_of(statefulset) | changes).items() if value is not None}
    spec = statefulset["spec"]
    made = {**statefulset, "spec": {**spec, "template": {**spec["template"], "spec": pods}}}
    return stored(made, annotations={"tailscale.com/desired-digest": digest} if digest else {})


def gos() -> Object:
    return live(whole(), terminationGracePeriodSeconds=30, readinessGates=None)


def adopted() -> Object:
    return stored(write_for(whole(live=gos()), gos()))


def earlier() -> Object:
    """Return a StatefulSet as an earlier version of this operator made it."""
    made = whole()
    pods_of(made)["terminationGracePeriodSeconds"] = 360
    return stored(to_create(made))


GRACE: dict[str, tuple[Object | None, int, int | None]] = {
    "new": (None, 2, 60),
    "Go's": (gos(), 2, None),
    "adopted": (adopted(), 2, None),
    "Go's, edited": (gos(), 3, 60),
    "adopted, edited": (adopted(), 3, 60),
    "ours": (live(whole()), 2, 60),
    "ours, edited by somebody": (live(whole(), digest="ours", terminationGracePeriodSeconds=30), 2, 60),
    "earlier": (earlier(), 2, 360),
    "earlier, edited": (earlier(), 3, 60),
}


@pytest.mark.parametrize(("live", "replicas", "seconds"), GRACE.values(), ids=GRACE)
def test_pods_of_the_go_operator_and_of_earlier_versions_stay_until_the_group_is_edited(
    live: Object | None, replicas: int, seconds: int | None
) -> None:
    pods = pods_of(whole({"replicas": replicas}, live=live))
    assert pods.get("terminationGracePeriodSeconds") == seconds
    assert pods.get("readinessGates") == (GATES if seconds else None)


@pytest.mark.parametrize("live", [adopted(), earlier()], ids=["adopted", "earlier"])
def test_a_groups_statefulset_of_the_go_operator_or_of_an_earlier_version_is_not_written_again(live: Object) -> None:
    assert write_for(whole(live=live), live) is None


def service(*families: str) -> Object:
    return obj(SERVICE, Key("tailscale", "foo-metrics"), {"spec": {"ipFamilies": [*families]}})


@pytest.mark.parametrize(
    ("class_", "given", "host"),
    [
        (METRICS, {}, None),
        (METRICS, {"metrics": [service("IPv6", "IPv4")]}, "[$(POD_IP)]"),
        (DEBUG, {}, "$(POD_IP)"),
    ],
)
def test_a_groups_statefulset_with_metrics_is_made_only_when_the_address_family_is_known(
    class_: Object, given: Object, host: str | None
) -> None:
    statefulset = made(class_=class_, **given)
    found = environment(statefulset).get("TS_DEBUG_ADDR_PORT") if statefulset else None
    assert found == (f"{host}:9001" if host else None)


def test_a_class_with_the_staging_environment_of_certificates_changes_nothing_for_an_egress_group() -> None:
    staging = {"useLetsEncryptStagingEnvironment": True}
    assert environment(whole(class_=staging)) == environment(whole())
