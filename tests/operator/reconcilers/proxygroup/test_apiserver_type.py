"""The plan for a ProxyGroup of type kube-apiserver: its Pods, its configs, its status, and its end."""

import json
from base64 import b64decode
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tsoperator.api.names import FINALIZER, KUBE_APISERVER_FINALIZER
from tsoperator.api.objects import STATEFULSET, Key, Object
from tsoperator.api.owners import ANNOTATION_OWNERS
from tsoperator.api.tailscaleservice import ServiceHost, TailscaleService
from tsoperator.group.apihosting import APIHost, APIHosting
from tsoperator.group.claims import claim_of
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.login import Keys
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.secret import static_endpoints_of
from tsoperator.proxy.serviceview import ServiceView
from tsoperator.proxy.workload import proxy_login
from tsoperator.reconcilers.proxygroup.plan import Observed
from tsoperator.runtime.diff import write_for
from tsoperator.runtime.plan import Child, Creation, Patch, Plan, Refusal

from tests.operator.reconcilers.proxygroup.groups import live_group, plan_of, proxy_of
from tests.support.objects import (
    children_of,
    deleting,
    live_proxy_class,
    obj,
    pod,
    reasons_of,
    settings,
    slim_secret,
    status_of,
)

OF = settings(k8s_proxy_image="tailscale/k8s-proxy:v1.102.5")
LABELS = group_owner("kapi").labels
SERVICE = "svc:kapi"


def kapi(mode: str | None = "auth", spec: Object | None = None, **metadata: Any) -> Object:
    given = {"kubeAPIServer": {"mode": mode}} if mode else {}
    return live_group({"type": "kube-apiserver", **given, **(spec or {})}, name="kapi", **metadata)


def secrets(ordinal: int, config: str = "", **state: str) -> list[Object]:
    """Return the Secrets of a replica. Without a *config*, the replica has no config Secret yet."""
    own = slim_secret(f"kapi-{ordinal}", state, {**LABELS, "tailscale.com/secret-type": "state"})
    of_config = {**LABELS, "tailscale.com/secret-type": "config"}
    return [own, *([slim_secret(f"kapi-{ordinal}-config", {"config.hujson": config}, of_config)] if config else ())]


def joined(ordinal: int) -> dict[str, str]:
    name = f"kapi-{ordinal}.tail1234.ts.net."
    return {"device_id": f"n{ordinal}", "device_fqdn": name, "device_ips": '["100.64.0.1"]', "pod_uid": f"P{ordinal}"}


def hosting(group: Object, *hosts: APIHost, **facts: Any) -> APIHosting:
    claim = claim_of(group, OF)
    assert claim is not None
    assert claim.sole_owner is not None
    owners = json.dumps({"ownerRefs": [{"operatorID": "nUS", "resource": claim.sole_owner._asdict()}]})
    view = ServiceView(TailscaleService(SERVICE, annotations={ANNOTATION_OWNERS: owners}))
    made = APIHosting(claim, view, claim, dict(enumerate(hosts)), "tail1234.ts.net", operator_id="nUS")
    return replace(made, **facts)


CONFIG = (
    '{"Version":"v1alpha1","State":"kube:kapi-0","LogLevel":"info","App":"k8s-operator-proxygroup-kube-apiserver",'
    '"ServerURL":"https://controlplane.tailscale.com","LocalPort":9002,"HealthCheckEnabled":true,"Hostname":"kapi-0",'
    '"AdvertiseServices":["svc:kapi"],"APIServerProxy":{"Enabled":true,"Mode":"auth","ServiceName":"svc:kapi",'
    '"IssueCerts":true}}'
)
"""The config of replica 0 as the Go operator writes it, once there is a certificate."""


def without(config: str, *names: str) -> str:
    """Return *config* without the fields *names*, at the top and in "APIServerProxy"."""
    found = {name: value for name, value in json.loads(config).items() if name not in names}
    found["APIServerProxy"] = {name: value for name, value in found["APIServerProxy"].items() if name not in names}
    return json.dumps(found, separators=(",", ":"))


BARE = without(CONFIG, "AdvertiseServices", "ServiceName")
WITH_KEY = BARE.replace('"State"', '"AuthKey":"key","State"')
SECOND = CONFIG.replace("kapi-0", "kapi-1").replace('"IssueCerts":true', '"IssueCerts":false')
SERVES = APIHost(SERVICE, (SERVICE,), (SERVICE,))


def written(plan: Plan, ordinal: int) -> str:
    """Return the config that *plan* gives to a replica; empty if *plan* doesn't change the config."""
    for step in plan.steps:
        body = step.obj if isinstance(step, Creation) else step.body if isinstance(step, Patch) else {}
        name = (
            body.get("metadata", {}).get("name")
            if isinstance(step, Creation)
            else getattr(step, "key", Key("", "")).name
        )
        if name == f"kapi-{ordinal}-config" and "data" in body:
            return b64decode(body["data"]["config.hujson"]).decode()
    return ""


def planned(group: Object, *found: Object, keys: Keys | None = None, **given: Any) -> Plan:
    observed = Observed(Children(secrets=found), **{"api": hosting(group), **given})
    return plan_of(group, observed, OF, **({"keys": keys} if keys else {}))


def test_a_new_replica_of_an_apiserver_group_gets_a_config_with_its_auth_key_and_no_tailscale_service() -> None:
    plan = planned(kapi(), keys=Keys({0: "key", 1: "other"}))
    assert written(plan, 0) == WITH_KEY
    assert json.loads(written(plan, 1))["APIServerProxy"] == {"Enabled": True, "Mode": "auth", "IssueCerts": False}


def test_the_configs_of_proxies_with_a_certificate_are_those_of_the_go_operator_to_the_byte() -> None:
    found = [*secrets(0, BARE, **joined(0)), *secrets(1, without(SECOND, "AdvertiseServices"), **joined(1))]
    api = hosting(kapi(), APIHost(), APIHost(SERVICE), has_certificate=True)
    plan = planned(kapi(), *found, api=api)
    assert (written(plan, 0), written(plan, 1)) == (CONFIG, SECOND)
    whole = [*secrets(0, CONFIG, **joined(0)), *secrets(1, SECOND, **joined(1))]
    again = planned(kapi(), *whole, api=hosting(kapi(), SERVES, SERVES, has_certificate=True))
    assert not any(written(again, ordinal) for ordinal in (0, 1))


def test_the_class_and_the_log_level_of_an_apiserver_group_add_fields_at_fixed_positions_of_the_config() -> None:
    class_ = live_proxy_class(spec={"metrics": {"enable": True}, "tailscale": {"acceptRoutes": False}}, ready=True)
    group = kapi("noauth", {"proxyClass": "prod", "replicas": 1})
    of = replace(OF, log_level="DEBUG")
    found = secrets(0, BARE, **joined(0))
    made = plan_of(group, Observed(Children(secrets=found), proxy_class=class_, api=hosting(group)), of)
    assert written(made, 0) == (
        '{"Version":"v1alpha1","State":"kube:kapi-0","LogLevel":"debug","App":"k8s-operator-proxygroup-kube-apiserver",'
        '"ServerURL":"https://controlplane.tailscale.com","LocalPort":9002,"MetricsEnabled":true,'
        '"HealthCheckEnabled":true,"Hostname":"kapi-0","AcceptRoutes":false,'
        '"APIServerProxy":{"Enabled":true,"Mode":"noauth","IssueCerts":true}}'
    )


def test_the_static_endpoints_in_a_config_are_read_in_their_order() -> None:
    endpoints = ["192.0.2.2:30002", "192.0.2.1:30001"]
    config = json.dumps({**json.loads(CONFIG), "StaticEndpoints": endpoints})
    assert static_endpoints_of(secrets(0, config)[1]) == tuple(endpoints)


KEYS: dict[str, tuple[str, dict[str, str], str]] = {
    "used": (WITH_KEY, joined(0), BARE),
    "in use": (WITH_KEY, {}, ""),
    "reissued": (WITH_KEY, {**joined(0), "reissue_authkey": "older"}, ""),
    "none, and none needed": (BARE, joined(0), ""),
}


@pytest.mark.parametrize(("config", "state", "expected"), KEYS.values(), ids=KEYS)
def test_an_auth_key_stays_in_the_config_of_an_apiserver_groups_replica_until_the_key_is_used(
    config: str, state: dict[str, str], expected: str
) -> None:
    group = kapi(spec={"replicas": 1})
    plan = planned(group, *secrets(0, config, **state), api=hosting(group, APIHost(has_joined=False)))
    assert written(plan, 0) == expected


def go_template(account: str) -> Object:
    """Return the Pod template that the Go operator 1.102.5 makes, with the defaults of the API server.

    *account* is the name of the ServiceAccount of the Pods.
    """

    def field(name: str, path: str) -> Object:
        return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}

    container = {
        "name": "tailscale",
        "image": "tailscale/k8s-proxy:v1.102.5",
        "imagePullPolicy": "IfNotPresent",
        "env": [
            field("POD_NAME", "metadata.name"),
            field("POD_UID", "metadata.uid"),
            field("POD_IP", "status.podIP"),
            field("POD_IPS", "status.podIPs"),
            {"name": "TS_K8S_PROXY_CONFIG", "value": "kube:tailscale/$(POD_NAME)-config"},
            {"name": "TS_DEBUG_ACME_FORCE_RENEWAL", "value": "true"},
        ],
        "ports": [{"name": "k8s-proxy", "containerPort": 443, "protocol": "TCP"}],
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    spec = {
        "serviceAccountName": account,
        "serviceAccount": account,
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    metadata = {
        "name": "kapi",
        "namespace": "tailscale",
        "labels": dict(LABELS),
        "deletionGracePeriodSeconds": 10,
        "creationTimestamp": None,
    }
    return {"metadata": metadata, "spec": spec}


def statefulset_of(plan: Plan) -> Object:
    (found,) = [each for each in children_of(plan) if each["kind"] == "StatefulSet"]
    return found


@pytest.mark.parametrize(
    ("mode", "account"),
    [("auth", "kube-apiserver-auth-proxy"), ("noauth", "kapi"), (None, "kube-apiserver-auth-proxy")],
)
def test_the_pods_that_the_go_operator_made_for_an_apiserver_group_stay_as_they_are(
    mode: str | None, account: str
) -> None:
    group, template = kapi(mode), go_template(account)
    fixed = {"podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10, "serviceName": ""}
    spec = {"replicas": 2, "selector": {"matchLabels": dict(LABELS)}, "template": template, **fixed}
    owner = {
        "apiVersion": "tailscale.com/v1alpha1",
        "kind": "ProxyGroup",
        "name": "kapi",
        "uid": "kapi-uid",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    live = obj(STATEFULSET, Key("tailscale", "kapi"), {"spec": spec}, labels=dict(LABELS), ownerReferences=[owner])
    config = CONFIG.replace('"Mode":"auth"', f'"Mode":"{mode or "auth"}"')
    second = SECOND.replace('"Mode":"auth"', f'"Mode":"{mode or "auth"}"')
    children = Children([], [live], [*secrets(0, config, **joined(0)), *secrets(1, second, **joined(1))])
    api = hosting(group, SERVES, SERVES, has_certificate=True)
    plan = plan_of(group, Observed(children, api=api), OF)
    after = write_for(statefulset_of(plan), live)
    assert after is not None
    assert {**after, "metadata": live["metadata"]} == live
    assert not any(written(plan, ordinal) for ordinal in (0, 1))


def test_new_pods_of_an_apiserver_group_have_nothing_that_the_go_operators_pods_lack() -> None:
    spec = statefulset_of(planned(kapi(), keys=Keys({0: "a", 1: "b"})))["spec"]
    made, wanted = spec["template"]["spec"], go_template("kube-apiserver-auth-proxy")["spec"]
    assert made.keys() == {"serviceAccountName", "containers"}
    (container,) = made["containers"]
    assert container.keys() == {"name", "image", "env", "ports"}
    assert [each["name"] for each in container["env"]] == [each["name"] for each in wanted["containers"][0]["env"]]
    assert spec["minReadySeconds"] == 10


def test_the_variables_and_ports_of_a_class_come_after_those_of_an_apiserver_group() -> None:
    given = {"metrics": {"enable": True}, "useLetsEncryptStagingEnvironment": True}
    class_ = live_proxy_class(spec=given, ready=True)
    group = kapi(spec={"proxyClass": "prod"})
    there = {**pod("kapi-0", "P0"), "status": {"podIP": "10.0.0.1"}}
    observed = Observed(Children(pods=[there]), proxy_class=class_, api=hosting(group))
    plan = plan_of(group, observed, OF, keys=Keys({0: "a", 1: "b"}))
    (container,) = statefulset_of(plan)["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in container["ports"]] == ["k8s-proxy", "debug", "metrics"]
    names = [each["name"] for each in container["env"]]
    assert names[5:] == [
        "TS_DEBUG_ACME_FORCE_RENEWAL",
        "TS_DEBUG_ADDR_PORT",
        "TS_TAILSCALED_EXTRA_ARGS",
        "TS_LOCAL_ADDR_PORT",
        "TS_ENABLE_METRICS",
        "TS_DEBUG_ACME_DIRECTORY_URL",
    ]


@pytest.mark.parametrize(("mode", "accounts"), [("auth", []), ("noauth", ["kapi"])])
def test_only_an_apiserver_group_of_mode_noauth_gets_a_service_account(mode: str, accounts: list[str]) -> None:
    made = children_of(planned(kapi(mode)))
    assert [each["metadata"]["name"] for each in made if each["kind"] == "ServiceAccount"] == accounts
    (binding,) = [each for each in made if each["kind"] == "RoleBinding"]
    assert binding["subjects"][0]["name"] == (accounts or ["kube-apiserver-auth-proxy"])[0]
    assert not [each for each in made if each["kind"] == "ConfigMap"]


def test_an_apiserver_group_gets_its_second_finalizer_after_the_first() -> None:
    assert planned(kapi()).hold == FINALIZER
    assert planned(kapi(finalizers=[FINALIZER])).hold == KUBE_APISERVER_FINALIZER


def class_with(**given: object) -> Object:
    return live_proxy_class(spec={"statefulSet": {"pod": given}}, ready=True)


class Checked(NamedTuple):
    """A group, its class, and words of the message about a fault of the group; empty without a fault."""

    group: Object
    words: str = ""
    class_: Object | None = None
    lacks_account: bool = False


def named(type_: str, **spec: Any) -> Object:
    return live_group({"type": type_, **spec}, name="kube-apiserver-auth-proxy")


NOAUTH: Object = {"kubeAPIServer": {"mode": "noauth"}}
CLASSY = kapi(spec={"proxyClass": "prod"})
CHECKED = {
    "ingress": Checked(live_group({"type": "ingress"})),
    "auth": Checked(kapi()),
    "auth without the account": Checked(kapi(), "kube-apiserver-auth-proxy doesn't exist", lacks_account=True),
    "noauth": Checked(kapi("noauth")),
    "auth, named like the account": Checked(named("kube-apiserver")),
    "noauth, named like the account": Checked(named("kube-apiserver", **NOAUTH), "make it anew with another"),
    "ingress, named like the account": Checked(named("ingress"), "make it anew with another"),
    "init container": Checked(
        CLASSY, "has a tailscaleInitContainer", class_with(tailscaleInitContainer={"image": "x"})
    ),
    "init container elsewhere": Checked(
        live_group({"type": "ingress", "proxyClass": "prod"}), "", class_with(tailscaleInitContainer={"image": "x"})
    ),
    "another image": Checked(CLASSY, "", class_with(tailscaleContainer={"image": "example.org/foo-tailscale"})),
    **{
        image: Checked(
            CLASSY,
            f"has the image {image}, which can't offer the Kubernetes API",
            class_with(tailscaleContainer={"image": image}),
        )
        for image in (
            "example.com/tailscale/tailscale:x",
            "example.com/tailscale",
            "tailscale/tailscale",
            "tailscale/tailscale:v1@sha256:" + 64 * "0",
        )
    },
    "k8s-proxy": Checked(CLASSY, "", class_with(tailscaleContainer={"image": "example.org/k8s-proxy"})),
    "k8s-proxy for ingress": Checked(
        live_group({"type": "ingress", "proxyClass": "prod"}),
        "which can't serve the tailnet",
        class_with(tailscaleContainer={"image": "example.org/k8s-proxy"}),
    ),
}


@pytest.mark.parametrize("case", CHECKED.values(), ids=CHECKED)
def test_a_group_that_does_not_suit_its_type_is_refused_with_words_that_say_what_to_change(case: Checked) -> None:
    api = hosting(case.group) if case.group["spec"]["type"] == "kube-apiserver" else None
    observed = Observed(Children(), proxy_class=case.class_, api=api, lacks_account=case.lacks_account)
    plan = plan_of(case.group, observed, OF)
    (ready,) = [each for each in status_of(plan)["conditions"] if each["type"] == "ProxyGroupReady"]
    assert (ready["reason"] == "ProxyGroupInvalid", case.words in ready["message"]) == (bool(case.words), True)
    assert bool([each for each in plan.steps if isinstance(each, Child)]) is not bool(case.words)


Told = tuple[str, str, str]
UNREAD, NO_SERVICE = ServiceView(pending=Exception()), ServiceView()
CREATING, AVAILABLE, READY = "ProxyGroupCreating", "ProxyGroupAvailable", "ProxyGroupReady"
VALID, INVALID, NONE = "KubeAPIServerProxyValid", "KubeAPIServerProxyInvalid", "KubeAPIServerProxyNoBackends"
NOBODY, ONE = (
    (NONE, "0/1 proxy backends ready and advertising"),
    ("KubeAPIServerProxyConfigured", "1/1 proxy backends ready and advertising"),
)


class Step(NamedTuple):
    """The facts at one step of a group towards its readiness, and the expected conditions and URL."""

    is_up: bool
    facts: dict[str, Any]
    available: Told
    ready: Told
    valid: Told | None
    configured: Told
    url: str = ""


DOWN, UP = ("False", CREATING, "0/1 ProxyGroup pods running"), ("True", AVAILABLE, "1/1 ProxyGroup pods running")
FOREIGN = ServiceView(TailscaleService(SERVICE, annotations={}))
HEADSCALE = ServiceView(refusal=Refusal("it has no Tailscale Services", "UnsupportedByControlServer"))
STEPS = {
    "creating": Step(False, {"view": UNREAD}, DOWN, DOWN, None, ("False", *NOBODY)),
    "valid": Step(False, {"view": NO_SERVICE}, DOWN, DOWN, ("True", VALID, VALID), ("False", *NOBODY)),
    "up": Step(
        True,
        {},
        UP,
        ("False", CREATING, "waiting for hostname advertisement"),
        ("True", VALID, VALID),
        ("False", *NOBODY),
    ),
    "configured": Step(
        True,
        {"hosts": {0: SERVES}},
        UP,
        ("True", READY, "the tailnet reaches the Kubernetes API at https://kapi.tail1234.ts.net"),
        ("True", VALID, VALID),
        ("True", *ONE),
        "https://kapi.tail1234.ts.net",
    ),
    "foreign": Step(
        True,
        {"view": FOREIGN},
        UP,
        ("False", "ProxyGroupInvalid", "waiting for spec.kubeAPIServer to be valid"),
        ("False", INVALID, "Tailscale Service svc:kapi exists already"),
        ("False", *NOBODY),
    ),
    "no identity": Step(
        True,
        {"view": NO_SERVICE, "operator_id": "", "no_identity": "no device"},
        UP,
        ("False", CREATING, "no device"),
        None,
        ("False", *NOBODY),
    ),
    "headscale": Step(
        True,
        {"view": HEADSCALE},
        UP,
        ("False", "UnsupportedByControlServer", "it has no"),
        ("False", "UnsupportedByControlServer", "it has no"),
        ("False", *NOBODY),
    ),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_the_conditions_say_what_a_group_still_lacks_to_offer_the_kubernetes_api(step: Step) -> None:
    group = kapi(spec={"replicas": 1}, generation=7)
    children = Children(secrets=secrets(0, CONFIG, **(joined(0) if step.is_up else {})), pods=[pod("kapi-0", "P0")])
    status = status_of(plan_of(group, Observed(children, api=hosting(group, **step.facts)), OF))
    found = {each["type"]: each for each in status["conditions"]}
    expected = (
        (AVAILABLE, step.available),
        (READY, step.ready),
        (VALID, step.valid),
        ("KubeAPIServerProxyConfigured", step.configured),
    )
    for kind, told in expected:
        assert (kind in found) is (told is not None), kind
        if told is not None:
            each = found[kind]
            assert (each["status"], each["reason"], each["message"][: len(told[2])]) == told
            assert each.get("observedGeneration") == (None if kind == AVAILABLE else 7)
    assert status.get("url", "") == step.url


def test_a_secret_with_the_labels_but_not_the_name_of_a_replica_stays_and_the_condition_says_so() -> None:
    found = slim_secret("kapi-x", {}, {**LABELS, "tailscale.com/secret-type": "state"})
    plan = planned(kapi(), misnamed=[found])
    (ready,) = [each for each in status_of(plan)["conditions"] if each["type"] == READY]
    assert (ready["reason"], "Secret tailscale/kapi-x has the labels" in ready["message"]) == (CREATING, True)
    assert "kapi-x" not in str(plan.steps)


def test_a_config_secret_without_a_config_stays_unchanged_and_the_condition_says_so() -> None:
    emptied = slim_secret("kapi-1-config", {"other": "text"}, {**LABELS, "tailscale.com/secret-type": "config"})
    found = Observed(Children(secrets=[*secrets(0, BARE), *secrets(1), emptied]), api=hosting(kapi()))
    plan = plan_of(kapi(), found, OF, keys=Keys({0: "key"}))
    (ready,) = [each for each in status_of(plan)["conditions"] if each["type"] == READY]
    assert (ready["reason"], "Secret kapi-1-config has no config.hujson" in ready["message"]) == (CREATING, True)
    assert (written(plan, 0), written(plan, 1)) == (WITH_KEY, "")
    login = proxy_login(proxy_of(kapi(), found, OF), found.children)
    assert login.in_need == {0}


def test_conditions_of_an_earlier_generation_do_not_make_a_group_ready() -> None:
    told = {"type": VALID, "status": "True", "reason": VALID, "message": VALID, "observedGeneration": 6}
    told["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    group = {**kapi(spec={"replicas": 1}, generation=7), "status": {"conditions": [told], "url": "https://old"}}
    children = Children(secrets=secrets(0, CONFIG, **joined(0)), pods=[pod("kapi-0", "P0")])
    api = hosting(group, SERVES, view=UNREAD)
    status = status_of(plan_of(group, Observed(children, api=api), OF))
    (ready,) = [each for each in status["conditions"] if each["type"] == READY]
    assert (ready["reason"], ready["message"]) == ("ProxyGroupInvalid", "waiting for spec.kubeAPIServer to be valid")


def test_a_group_waits_until_the_operator_has_read_its_tailscale_service_and_its_hosts() -> None:
    unread = ValueError("unread")
    for facts in ({"view": ServiceView(pending=unread)}, {"unread": unread}):
        assert planned(kapi(), api=hosting(kapi(), **facts)).error is unread


def test_an_event_names_the_obstacle_of_an_apiserver_group_and_is_written_only_once_if_that_is_headscale() -> None:
    for view, reason, once in (
        (FOREIGN, "InvalidTailscaleService", False),
        (HEADSCALE, "UnsupportedByControlServer", True),
    ):
        (note,) = planned(kapi(), api=hosting(kapi(), view=view)).notes
        assert (note.type, note.reason, note.once) == ("Warning", reason, once)


@pytest.mark.parametrize(
    ("waited", "approval", "reasons", "again"),
    [
        (None, "not-approved", [], None),
        (10.0, "not-approved", [], 20.0),
        (30.0, "not-approved", ["HostsNotApproved"], None),
        (30.0, "approved", [], None),
    ],
)
def test_an_event_says_that_no_proxy_is_approved_as_a_host_when_the_certificate_is_late(
    waited: float | None, approval: str, reasons: list[str], again: float | None
) -> None:
    api = hosting(kapi(), APIHost(SERVICE), waited=waited, candidates=[ServiceHost("n0", approval)])
    plan = planned(kapi(), *secrets(0, BARE, **joined(0)), api=api)
    assert (reasons_of(plan), plan.requeue_after) == (reasons, again)


GOING = deleting(kapi(finalizers=[FINALIZER, KUBE_APISERVER_FINALIZER]))
GONE = deleting(kapi(finalizers=[KUBE_APISERVER_FINALIZER]))


def test_a_deleted_apiserver_group_loses_its_proxies_before_it_waits_for_the_end_of_its_tailscale_service() -> None:
    assert planned(GOING).release == FINALIZER
    waits = planned(GONE, api=hosting(GONE, left=Refusal("being removed", is_passing=True)))
    assert (waits.release, waits.requeue_after, reasons_of(waits)) == ("", 30.0, [])
    blocked = planned(GONE, api=hosting(GONE, left=Refusal("refused")))
    assert (blocked.release, reasons_of(blocked)) == ("", ["DeletionBlocked"])
    assert planned(GONE).release == KUBE_APISERVER_FINALIZER
    assert planned(deleting(kapi())) == Plan()
