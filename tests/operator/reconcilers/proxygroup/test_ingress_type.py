"""The plan for a ProxyGroup of type ingress: its Pods, its configs, and the ACME account that groups can share."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tsoperator.api.names import ACCOUNTS_FINALIZER
from tsoperator.api.objects import CONFIGMAP, SECRET, Key, Object, key_of
from tsoperator.group.exposing import Offer
from tsoperator.group.grouptype import EGRESS, INGRESS
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.hosting import Hosted, slim_hosting
from tsoperator.proxy.login import Keys
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.serve import hosted_config
from tsoperator.proxy.tailscaled import ProxyConfig, config_files
from tsoperator.reconcilers.proxygroup.plan import Observed
from tsoperator.reconcilers.proxygroup.statefulset import group_statefulset
from tsoperator.runtime.diff import write_for
from tsoperator.runtime.plan import Creation, Plan, Refusal

from tests.operator.reconcilers.proxygroup.groups import SETTINGS, live_group, plan_of, proxy_of
from tests.support.objects import (
    children_of,
    deleting,
    live_proxy_class,
    obj,
    patches_of,
    reasons_of,
    settings,
    slim_secret,
    status_of,
    stored,
    texts,
)

OWNED = {"tailscale.com/managed": "true"}
SHARING = settings(firewall_mode="auto", share_acme_account=True)
SHARE = "tailscale.com/share-acme-account"
ACCOUNTS = Key("tailscale", "tailscale-acme-accounts")


def ing(*, spec: Object | None = None, **metadata: Any) -> Object:
    return live_group({"type": "ingress", **(spec or {})}, name="ing", **metadata)


def account(**metadata: Any) -> Object:
    return obj(SECRET, ACCOUNTS, **{"labels": OWNED, "finalizers": [ACCOUNTS_FINALIZER], **metadata})


def secrets(ordinal: int, *advertised: str, version: str = "143", **more: Any) -> list[Object]:
    """Return the Secrets of a proxy whose config tells it to advertise *advertised*.

    With an ``auth_key`` in *more*, the proxy hasn't joined the tailnet yet. *version* is its capability version. The
    other values in *more* are fields of its config.
    """
    labels = dict(group_owner("ing").labels)
    key = more.pop("auth_key", "")
    config = ProxyConfig(f"ing-{ordinal}", SETTINGS.control_url, in_group=True, services=advertised, **more)
    device = {"device_id": f"n{ordinal}", "device_fqdn": f"ing-{ordinal}.tail1234.ts.net."}
    return [
        slim_secret(f"ing-{ordinal}", {"tailscale_capver": version, **({} if key else device)}, labels),
        slim_secret(f"ing-{ordinal}-config", config_files(config, key), labels),
    ]


def pods_of(of: Any = SETTINGS, class_: Object | None = None, **given: Any) -> Object:
    """Return the template of the group's Pods."""
    template: Object = spec_of(of, class_, **given)["template"]
    return template


def spec_of(of: Any = SETTINGS, class_: Object | None = None, **given: Any) -> Object:
    """Return the spec of the group's StatefulSet."""
    group = ing(**given) if class_ is None else ing(spec={"proxyClass": "prod"})
    found = live_proxy_class(spec=class_, ready=True) if class_ is not None else None
    proxy = proxy_of(group, Observed(Children(), proxy_class=found), of)
    made = group_statefulset(INGRESS, proxy, of, Children())
    assert made is not None
    spec: Object = made["spec"]
    return spec


def environment(template: Object) -> dict[str, str]:
    found = template["spec"]["containers"][0]["env"]
    return {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in found}


COMMON = {
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
    "TS_INTERNAL_APP": "k8s-operator-proxygroup-ingress",
    "TS_INGRESS_PROXIES_CONFIG_PATH": "/etc/proxies/ingress-config.json",
    "TS_SERVE_CONFIG": "/etc/proxies/serve-config.json",
    "TS_EXPERIMENTAL_CERT_SHARE": "true",
}
ALONE = {"TS_DEBUG_ACME_FORCE_RENEWAL": "true"}


def shared(tailnet: str) -> dict[str, str]:
    field = f"{tailnet}.acme-account.key.pem"
    return {"TS_ACME_ACCOUNT_SECRET_NAME": "tailscale-acme-accounts", "TS_ACME_ACCOUNT_FIELD": field}


@pytest.mark.parametrize(
    ("of", "group", "account"),
    [
        (SETTINGS, {}, ALONE),
        (SHARING, {}, shared("_default")),
        (SHARING, {"spec": {"tailnet": "lab"}}, shared("lab")),
        (SHARING, {"annotations": {SHARE: "false"}}, ALONE),
        (SHARING, {"annotations": {SHARE: "yes"}}, ALONE),
        (SETTINGS, {"annotations": {SHARE: "true"}}, shared("_default")),
    ],
)
def test_the_variables_of_an_ingress_groups_proxies_are_in_the_order_that_the_image_expects(
    of: Any, group: Any, account: dict[str, str]
) -> None:
    assert [*environment(pods_of(of, **group)).items()] == [*{**COMMON, **account}.items()]


def test_a_rollout_of_an_ingress_group_waits_until_a_new_pod_has_run_for_ten_seconds() -> None:
    assert spec_of()["minReadySeconds"] == 10


def test_the_pods_of_an_ingress_group_have_no_readiness_gate_and_end_without_waiting_for_connections() -> None:
    template = pods_of()
    spec = template["spec"]
    assert not {"readinessGates", "terminationGracePeriodSeconds"} & spec.keys()
    assert "lifecycle" not in spec["containers"][0]
    assert template["metadata"]["deletionGracePeriodSeconds"] == 10
    config = {"name": "ing-ingress-config", "configMap": {"name": "ing-ingress-config"}}
    assert (spec["serviceAccountName"], spec["volumes"][-1]) == ("ing", config)


STAGING = {"useLetsEncryptStagingEnvironment": True}
URL = "https://acme-staging-v02.api.letsencrypt.org/directory"


@pytest.mark.parametrize(("class_", "url"), [(STAGING, URL), ({"useLetsEncryptStagingEnvironment": False}, None)])
def test_a_class_can_choose_the_staging_environment_of_the_certificate_authority(class_: Object, url: str) -> None:
    assert environment(pods_of(class_=class_)).get("TS_DEBUG_ACME_DIRECTORY_URL") == url
    egress = live_group({"proxyClass": "prod"})
    proxy = proxy_of(egress, Observed(Children(), proxy_class=live_proxy_class(spec=class_, ready=True)))
    made = group_statefulset(EGRESS, proxy, SETTINGS, Children())
    assert made is not None
    assert "TS_DEBUG_ACME_DIRECTORY_URL" not in environment(made["spec"]["template"])


def test_the_pods_of_an_ingress_group_of_the_go_operator_do_not_restart() -> None:
    proxy = proxy_of(ing(), Observed(Children()))
    made = group_statefulset(INGRESS, proxy, SETTINGS, Children())
    assert made is not None
    given = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst"}
    spec = {name: value for name, value in made["spec"].items() if name != "minReadySeconds"}
    pod = spec["template"]["spec"] | given
    (container,) = pod["containers"]
    pod["containers"] = [{**container, "env": container["env"][::-1]}]  # Go operators have had several orders
    live = stored({**made, "spec": {**spec, "template": {**spec["template"], "spec": pod}}})
    written = write_for(group_statefulset(INGRESS, proxy, SETTINGS, Children(statefulsets=[live])) or {}, live)
    assert written is not None
    assert written["spec"] == live["spec"]


def config_of(made: Plan, ordinal: int) -> Any:
    """Return the config that the plan *made* writes for a replica; None if the plan writes none."""
    found = [each for each in children_of(made) if key_of(each).name == f"ing-{ordinal}-config"]
    patches = [each.body for each in patches_of(made) if each.key.name == f"ing-{ordinal}-config"]
    found += [each for each in patches if "data" in each]
    return json.loads(texts(found[0])["cap-106.hujson"]) if found else None


def test_the_config_of_a_replica_lists_its_advertised_services_right_after_the_field_acceptroutes() -> None:
    children = Children(secrets=[*secrets(0), *secrets(1, "svc:web")])
    made = plan_of(ing(), Observed(children, offer=Offer(advertised={0: ("svc:web", "svc:api"), 1: ()})))
    config = config_of(made, 0)
    assert [*config][-2:] == ["acceptRoutes", "AdvertiseServices"]
    assert config["AdvertiseServices"] == ["svc:web", "svc:api"]
    assert "AdvertiseServices" not in config_of(made, 1)


def test_a_config_that_already_advertises_the_right_services_is_not_written_again() -> None:
    observed = Observed(Children(secrets=secrets(0, "svc:web")), offer=Offer(advertised={0: ("svc:web",)}))
    assert config_of(plan_of(ing(spec={"replicas": 1}), observed), 0) is None


KEPT = Hosted(served={"svc:web": hosted_config("web.tail1234.ts.net", {}, serves_http=False, redirects=False)})


@pytest.mark.parametrize("missing", [{"class_name": "prod"}, {}], ids=["no class", "unknown tailnet"])
def test_a_group_whose_proxies_cannot_be_made_still_stops_advertising_tailscale_services_that_are_gone(
    missing: dict[str, str],
) -> None:
    live = slim_hosting(obj(CONFIGMAP, Key("tailscale", "ing-ingress-config"), labels=dict(group_owner("ing").labels)))
    more: dict[str, Any] = {"accept_routes": True, "static_endpoints": ("192.0.2.1:1",)}
    found = [*secrets(0, "svc:web", "svc:gone", **more), *secrets(1, "svc:web"), *secrets(2, "svc:gone", auth_key="k")]
    offer = Offer(KEPT, {0: ("svc:web", "svc:new"), 1: ("svc:web",)})
    observed = Observed(Children(secrets=found), configmap=live, offer=offer)
    if not missing:
        observed = replace(observed, tailnet=replace(observed.tailnet, refusal=Refusal("away")))
    made = plan_of(ing(spec={"proxyClass": "prod"} if missing else None), observed)
    assert [each.key.name for each in patches_of(made)] == ["ing-ingress-config", "ing-0-config"]
    wanted = ProxyConfig("ing-0", SETTINGS.control_url, in_group=True, services=("svc:web",), **more)
    assert texts(patches_of(made)[1].body)["cap-106.hujson"] == config_files(wanted)["cap-106.hujson"]


def test_the_plan_of_an_ingress_group_waits_until_the_operator_has_read_its_tailscale_services() -> None:
    pending = ValueError("wait")
    assert plan_of(ing(), Observed(Children(), offer=Offer(pending=pending))).error is pending


def test_an_event_names_objects_for_which_the_configmap_has_no_room() -> None:
    left_out = [Key("default", name) for name in "abcde"]
    (note,) = plan_of(ing(), Observed(Children(), offer=Offer(left_out=left_out))).notes
    assert (note.reason, note.message.split(": ")[0]) == (
        "ConfigMapFull",
        "its ConfigMap has no room for default/a and default/b and default/c and 2 more",
    )


LIVES: dict[str, tuple[Object | None, list[Object]]] = {
    "missing": (None, []),
    "there": (account(), []),
    "no label": (account(labels={}), [{"labels": OWNED}]),
    "no finalizer": (
        account(finalizers=["example.org/x"]),
        [{"finalizers": ["example.org/x", ACCOUNTS_FINALIZER], "resourceVersion": "1"}],
    ),
    "deleted": (deleting(account(labels={})), []),
}


@pytest.mark.parametrize(("live", "patched"), LIVES.values(), ids=LIVES)
def test_the_shared_acme_account_has_a_label_and_a_finalizer_and_no_owner(
    live: Object | None, patched: list[Object]
) -> None:
    made = plan_of(ing(), Observed(Children(), account=live), SHARING, keys=Keys({0: "a", 1: "b"}))
    found = [each for each in made.steps if isinstance(each, Creation) and key_of(each.obj) == ACCOUNTS]
    metadata = {"namespace": "tailscale", "name": ACCOUNTS.name, "labels": OWNED, "finalizers": [ACCOUNTS_FINALIZER]}
    assert [each.obj["metadata"] for each in found] == [metadata] * (live is None)
    assert [each.body["metadata"] for each in patches_of(made) if each.key == ACCOUNTS] == patched
    told = [(report.obj, note.reason) for report in made.reports for note in report.notes]
    assert told == ([(live, "ACMEAccountsPendingDeletion")] if live and "deletionTimestamp" in live["metadata"] else [])


@pytest.mark.parametrize(("of", "is_named"), [(SHARING, True), (SETTINGS, False)])
def test_the_role_of_a_group_names_the_shared_acme_account_only_if_the_group_shares_the_account(
    of: Any, is_named: bool
) -> None:
    made = plan_of(ing(), Observed(Children()), of)
    (role,) = [each for each in children_of(made) if each["kind"] == "Role"]
    own = ["ing-0-config", "ing-0", "ing-1-config", "ing-1"]
    assert role["rules"][1]["resourceNames"] == [*own, *(["tailscale-acme-accounts"] if is_named else [])]
    assert any(key_of(each) == ACCOUNTS for each in children_of(made)) is is_named


@pytest.mark.parametrize(
    ("of", "versions", "told"),
    [
        (SHARING, ("142", "143"), ["ACMEAccountNotShared"]),
        (SHARING, ("143", ""), []),
        (SETTINGS, ("142", "142"), []),
    ],
)
def test_an_event_names_proxies_whose_image_cannot_share_an_acme_account(
    of: Any, versions: tuple[str, ...], told: list[str]
) -> None:
    found = [each for ordinal, version in enumerate(versions) for each in secrets(ordinal, version=version)]
    made = plan_of(ing(), Observed(Children(secrets=found), account=account()), of)
    assert reasons_of(made) == told
    assert not told or "ing-0 is older" in made.notes[0].message


def test_the_status_of_an_ingress_group_counts_its_running_proxies() -> None:
    (available, ready) = status_of(plan_of(ing(), Observed(Children())))["conditions"]
    assert (available["type"], available["message"]) == ("ProxyGroupAvailable", "0/2 ProxyGroup pods running")
    assert (ready["reason"], ready["status"]) == ("ProxyGroupCreating", "False")
    invalid = plan_of(ing(spec={"replicas": 101}), Observed(Children()))
    assert reasons_of(invalid) == ["ProxyGroupInvalid"]
