"""The plan for a PeerRelay: its children, its status and its Events."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import SECRET, SERVICE, Key, Object, annotations, key_of, labels
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.login import Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.reconcilers.peerrelay import plan as plans
from tsoperator.reconcilers.peerrelay.ask import parse
from tsoperator.reconcilers.peerrelay.endpoints import Resolved
from tsoperator.reconcilers.peerrelay.plan import DEVICE_REASONS, Observed, failed
from tsoperator.runtime.diff import write_for
from tsoperator.runtime.plan import DeleteDevice, Deletion, Patch, Plan, Refusal

from tests.operator.reconcilers.peerrelay.relays import (
    OF_REPLICA,
    OWNER,
    SETTINGS,
    balancer,
    host,
    ip,
    joined,
    live_relay,
    plan_of,
    relay_pod,
    resolving,
    running,
    secrets,
    statefulset,
)
from tests.support.objects import (
    children_of,
    condition_of,
    deleting,
    deletions_of,
    held,
    live_proxy_class,
    obj,
    patches_of,
    reasons_of,
    status_of,
    stored,
    texts,
    whole_secret,
)
from tests.support.rows import Row, Said, play, said_by, states_of

AWS = "service.beta.kubernetes.io/aws-load-balancer-"
A, B = "203.0.113.4", "203.0.113.10"
CLOUDS = {
    f"{AWS}type": "external",
    f"{AWS}nlb-target-type": "ip",
    f"{AWS}scheme": "internet-facing",
    f"{AWS}ip-address-type": "ipv4",
    f"{AWS}healthcheck-protocol": "http",
    f"{AWS}healthcheck-port": "9002",
    f"{AWS}healthcheck-path": "/healthz",
    "service.beta.kubernetes.io/azure-load-balancer-internal": "false",
}
CROSS_ZONE = {f"{AWS}attributes": "load_balancing.cross_zone.enabled=true"}
LB = "lb.example.org"
LOST = {LB: Resolved(failure="no such host")}
BOTH = (balancer(0, ip(A)), balancer(1, ip(B)))
TWO = running(*BOTH)
GIVEN = "tailscale.com/from-proxy-class"
KEYS = Keys({ordinal: f"tskey-auth-{ordinal}" for ordinal in range(3)})


def named(made: Plan, kind: str) -> dict[str, Object]:
    """Return the children of one *kind* that the plan *made* writes, by name."""
    return {key_of(each).name: each for each in children_of(made) if each["kind"] == kind}


def ready(made: Plan) -> tuple[str, str, str]:
    found = condition_of(made)
    assert found["type"] == "PeerRelayReady"
    return found["status"], found["reason"], found["message"]


def listed(made: Plan) -> list[tuple[int, str]]:
    """Return the endpoints that the plan *made* writes into the status: the replica and the address of each."""
    return listed_in(status_of(made))


def listed_in(status: Object) -> list[tuple[int, str]]:
    """Return the endpoints in *status*: the replica and the address of each."""
    assert all(each["port"] == 41641 for each in status["endpoints"])
    return [(each["replica"], each["address"]) for each in status["endpoints"]]


def elastic(*numbers: int) -> Object:
    return {
        "elasticIPs": [{"allocationID": f"eipalloc-{number}", "subnetID": f"subnet-{number}"} for number in numbers]
    }


# Children


@pytest.mark.parametrize("replicas", [0, 1, 3])
def test_each_replica_of_a_peerrelay_has_a_load_balancer_and_two_secrets(replicas: int) -> None:
    made = plan_of(live_relay({"replicas": replicas}), keys=KEYS)
    names = [f"peerrelay-edge-{ordinal}" for ordinal in range(replicas)]
    assert [*named(made, "Service")] == names
    assert sorted(named(made, "Secret")) == sorted([*names, *(f"{name}-config" for name in names)])
    assert named(made, "StatefulSet")["peerrelay-edge"]["spec"]["replicas"] == replicas
    for kind in ("Service", "Secret"):
        for name, each in named(made, kind).items():
            assert labels(each).items() >= {**OWNER.labels, OF_REPLICA: name.removesuffix("-config")[-1]}.items()
            assert "ownerReferences" not in each["metadata"]
    assert made.hold == FINALIZER
    assert not deletions_of(made)


def test_a_peerrelay_with_an_empty_spec_has_one_replica() -> None:
    assert [*named(plan_of({**live_relay(), "spec": {}}, keys=KEYS), "Service")] == ["peerrelay-edge-0"]


def test_the_load_balancer_of_a_relay_forwards_udp_to_one_pod() -> None:
    (service,) = named(plan_of(live_relay(), keys=KEYS), "Service").values()
    assert service["spec"] == {
        "type": "LoadBalancer",
        "selector": {"statefulset.kubernetes.io/pod-name": "peerrelay-edge-0"},
        "ports": [{"name": "peerrelay", "protocol": "UDP", "port": 41641, "targetPort": 41641}],
    }


class Given(NamedTuple):
    """The *spec* of a PeerRelay, and the annotations of its load balancers by ordinal."""

    spec: Object
    annotations: Sequence[dict[str, str]]


def eip(number: int) -> dict[str, str]:
    return {f"{AWS}eip-allocations": f"eipalloc-{number}", f"{AWS}subnets": f"subnet-{number}"}


ANNOTATIONS = {
    "none": Given({}, [CROSS_ZONE | CLOUDS]),
    "a user's": Given({"service": {"annotations": {"a": "b"}}}, [CROSS_ZONE | CLOUDS | {"a": "b"}]),
    "a user's that a relay needs otherwise": Given(
        {"service": {"annotations": {f"{AWS}scheme": "internal"}}}, [CROSS_ZONE | CLOUDS]
    ),
    "a user's attributes": Given(
        {"service": {"annotations": {f"{AWS}attributes": "x=y"}}}, [CLOUDS | {f"{AWS}attributes": "x=y"}]
    ),
    "an elastic IP for each": Given(
        {"replicas": 2, "aws": elastic(1, 2, 3)}, [CROSS_ZONE | CLOUDS | eip(1), CROSS_ZONE | CLOUDS | eip(2)]
    ),
    "elastic IPs over a user's": Given(
        {"aws": elastic(1), "service": {"annotations": {f"{AWS}eip-allocations": "eipalloc-9"}}},
        [CROSS_ZONE | CLOUDS | eip(1)],
    ),
}


@pytest.mark.parametrize("case", ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_the_load_balancers_of_relays_have_the_annotations_of_the_user_and_annotations_for_clouds(case: Given) -> None:
    services = named(plan_of(live_relay(case.spec), keys=KEYS), "Service").values()
    found = [{name: value for name, value in annotations(each).items() if name != GIVEN} for each in services]
    assert found == list(case.annotations)


CLEARED = {
    "elastic IPs": ({"aws": elastic(1)}, [f"{AWS}eip-allocations", f"{AWS}subnets"]),
    "a user's": ({"service": {"annotations": {"a": "b"}}}, ["a"]),
}


@pytest.mark.parametrize(("spec", "gone"), CLEARED.values(), ids=CLEARED)
def test_annotations_that_a_peerrelays_spec_no_longer_has_are_removed_and_those_of_others_stay(
    spec: Object, gone: list[str]
) -> None:
    (before,) = named(plan_of(live_relay(spec), keys=KEYS), "Service").values()
    live = stored(write_for(before, None))
    live["metadata"]["annotations"]["example.org/others"] = "kept"
    (after,) = named(plan_of(live_relay(), running(live)), "Service").values()
    written = write_for(after, live)
    assert written is not None
    assert not {*gone} & annotations(written).keys()
    assert annotations(written).items() >= {**CLOUDS, "example.org/others": "kept"}.items()


def test_a_load_balancer_keeps_the_class_that_a_cloud_has_set() -> None:
    live = balancer(0, ip(A))
    live["spec"]["loadBalancerClass"] = "service.k8s.aws/nlb"
    (service,) = named(plan_of(live_relay(), running(live)), "Service").values()
    assert service["spec"]["loadBalancerClass"] == "service.k8s.aws/nlb"


def test_the_pods_of_a_peerrelay_equal_the_pods_that_the_go_operator_makes() -> None:
    made = named(plan_of(live_relay({"replicas": 2}), keys=KEYS), "StatefulSet")["peerrelay-edge"]
    assert made["metadata"]["labels"] == OWNER.labels
    names = ["peerrelay-edge-0", "peerrelay-edge-1"]
    mounts = [
        {"name": f"tailscaledconfig-{number}", "mountPath": f"/etc/tsconfig/{name}", "readOnly": True}
        for number, name in enumerate(names)
    ]
    assert made["spec"] == {
        "replicas": 2,
        "serviceName": "peerrelay-edge",
        "selector": {"matchLabels": OWNER.labels},
        "template": {
            "metadata": {"labels": OWNER.labels},
            "spec": {
                "serviceAccountName": "proxies",
                "volumes": [
                    {"name": f"tailscaledconfig-{number}", "secret": {"secretName": f"{name}-config"}}
                    for number, name in enumerate(names)
                ],
                "containers": [
                    {
                        "name": "tailscaled",
                        "image": SETTINGS.proxy_image,
                        "ports": [{"name": "healthz", "containerPort": 9002, "protocol": "TCP"}],
                        "env": [
                            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                            {"name": "TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR", "value": "/etc/tsconfig/$(POD_NAME)"},
                            {"name": "TS_KUBE_SECRET", "value": "$(POD_NAME)"},
                            {"name": "TS_ENABLE_HEALTH_CHECK", "value": "true"},
                        ],
                        "volumeMounts": mounts,
                    }
                ],
            },
        },
    }


def test_the_proxyclass_changes_the_pods_of_relays_but_adds_neither_metrics_nor_debugging() -> None:
    pods = {
        "nodeSelector": {"zone": "edge"},
        "tailscaleContainer": {"image": "example.org/ts:1", "env": [{"name": "A", "value": "b"}]},
    }
    spec = {"statefulSet": {"labels": {"team": "web"}, "pod": pods}, "metrics": {"enable": True}}
    chosen = live_proxy_class(spec=spec, ready=True)
    made = plan_of(live_relay({"proxyClass": "prod"}), keys=KEYS, proxy_class=chosen)
    found = named(made, "StatefulSet")["peerrelay-edge"]
    template = found["spec"]["template"]["spec"]
    (made_container,) = template["containers"]
    assert (found["metadata"]["labels"]["team"], template["nodeSelector"]) == ("web", {"zone": "edge"})
    assert (made_container["name"], made_container["image"]) == ("tailscaled", "example.org/ts:1")
    assert [each["name"] for each in made_container["env"]][3:] == ["TS_ENABLE_HEALTH_CHECK", "A"]
    assert [*named(made, "Service")] == ["peerrelay-edge-0"]


# Configuration


def config(made: Plan, ordinal: int = 0) -> Object:
    """Return the configuration that the plan *made* writes for a replica, without the auth key."""
    name = f"peerrelay-edge-{ordinal}-config"
    found = [
        *named(made, "Secret").values(),
        *({"metadata": {"name": each.key.name}, **each.body} for each in patches_of(made)),
    ]
    (data,) = [texts(each) for each in found if each["metadata"]["name"] == name]
    ((file, text),) = data.items()
    assert file == "cap-142.hujson"
    value: Object = json.loads(text)
    return value


def test_the_config_of_a_peerrelays_replica_makes_the_replica_a_relay() -> None:
    assert list(config(plan_of(live_relay(), keys=KEYS)).items()) == [
        ("Version", "alpha0"),
        ("Locked", False),
        ("ServerURL", "https://controlplane.tailscale.com"),
        ("AuthKey", "tskey-auth-0"),
        ("Hostname", "edge-0"),
        ("acceptDNS", False),
        ("acceptRoutes", False),
        ("RelayServerPort", 41641),
    ]


def test_the_config_of_a_relay_lists_the_endpoints_as_soon_as_the_load_balancer_has_an_address() -> None:
    made = plan_of(live_relay(), running(balancer(0, ip(A), ip(B))))
    assert config(made)["RelayServerStaticEndpoints"] == [f"{B}:41641", f"{A}:41641"]


def test_a_config_for_newer_images_that_another_operator_wrote_for_a_relay_is_removed() -> None:
    state, live = joined(0)
    newer = whole_secret("peerrelay-edge-0-config", {"cap-145.hujson": "{}"}, labels(live))
    made = plan_of(live_relay(), running(balancer(0, ip(A)), secret_list=[state, newer]))
    (patch,) = [each for each in patches_of(made) if each.key.name.endswith("-config")]
    assert (patch.body["data"]["cap-145.hujson"], "cap-142.hujson" in patch.body["data"]) == (None, True)


def test_the_spec_of_a_peerrelay_decides_the_hostname_prefix_the_tags_and_the_tailnet_of_its_devices() -> None:
    relay = live_relay({"hostnamePrefix": "gate", "tags": ["tag:relay"], "tailnet": "other"})
    tailnet = TailnetView("other", login_url="https://headscale.example.org")
    wanted = plans.wanted(parse(relay, SETTINGS), Observed(Children(), tailnet=tailnet), SETTINGS)
    assert isinstance(wanted, Proxy)
    assert (wanted.tags, wanted.tailnet) == (["tag:relay"], "other")
    found = config(plan_of(relay, keys=KEYS, tailnet=tailnet))
    assert (found["Hostname"], found["ServerURL"]) == ("gate-0", "https://headscale.example.org")


@pytest.mark.parametrize("number", [0, 1], ids=["state", "config"])
def test_the_operator_puts_the_lost_label_of_a_replica_back_on_its_secret(number: int) -> None:
    found = joined(0, f"{A}:41641")
    del found[number]["metadata"]["labels"][OF_REPLICA]
    (patch,) = patches_of(plan_of(live_relay(), running(balancer(0, ip(A)), secret_list=found)))
    assert patch == Patch(SECRET, key_of(found[number]), {"metadata": {"labels": {OF_REPLICA: "0"}}})


# Status


class Shown(NamedTuple):
    """The children of a PeerRelay with *replicas*, and the expected status: the reason, words, and the endpoints.

    *resolved* are the results of look-ups of hostnames. A test on a cluster leaves a case with such results out.
    """

    replicas: int
    children: Children
    reason: str
    words: str
    endpoints: Sequence[tuple[int, str]] = ()
    resolved: Mapping[str, Resolved] = MappingProxyType({})

    @property
    def row(self) -> Row:
        relay = live_relay({"replicas": self.replicas}, generation=7)
        apart = "no DNS server knows the hostname there" if self.resolved else ""
        return Row(relay, self.check, states=states_of(self.children), apart=apart)

    def check(self, said: Said) -> None:
        status, reason, message = said.ready()
        assert (status, reason, self.words in message) == (str(reason == "PeerRelayReady"), self.reason, True), message
        assert listed_in(said.status) == list(self.endpoints)


NO_LOGIN = [each for ordinal in range(2) for each in (joined(0) if ordinal == 0 else secrets(1))]
OLD_IMAGE = [*secrets(0, tailscale_capver="141"), *joined(1)]
CRASHED = replace(running(balancer(0, ip(A)), ready=0), pods=[relay_pod(0, containerStatuses=[{"restartCount": 3}])])
ANOTHER = {"another.example.org": Resolved((B,))}
LOOKED_UP_LATER = running(balancer(0, host(LB)), balancer(1), secret_list=joined(0, f"{A}:41641"))
READY, PENDING, NO_HOST = "PeerRelayReady", "EndpointsPending", f"{LB} (no such host)"
STATUSES = {
    "nothing yet": Shown(1, Children(), PENDING, "0 of 1 replicas have a public IP: waiting for the load"),
    "no replicas": Shown(0, Children(), READY, READY),
    "all": Shown(2, TWO, READY, READY, [(0, A), (1, B)]),
    "two addresses of one": Shown(1, running(balancer(0, ip(A), ip(B))), READY, READY, [(0, B), (0, A)]),
    "two addresses of one and none of another": Shown(
        2,
        running(balancer(0, ip(A), ip(B)), balancer(1)),
        PENDING,
        "1 of 2 replicas have a public IP",
        [(0, B), (0, A)],
    ),
    "a hostname": Shown(1, running(balancer(0, host(LB))), READY, READY, [(0, A)], {LB: Resolved((A,))}),
    "a hostname without addresses": Shown(1, running(balancer(0, host(LB))), PENDING, NO_HOST, [], LOST),
    "a published one without addresses": Shown(
        1, running(balancer(0, host(LB)), secret_list=joined(0, f"{A}:41641")), READY, NO_HOST, [(0, A)], LOST
    ),
    "a published one that isn't looked up yet beside one that waits": Shown(
        2, LOOKED_UP_LATER, PENDING, "load balancer of Service peerrelay-edge-1 in", [(0, A)], ANOTHER
    ),
    "one without addresses beside others": Shown(
        2, running(balancer(0, host(LB)), balancer(1, ip(B))), PENDING, NO_HOST, [(1, B)], LOST
    ),
    "Pods that aren't ready": Shown(
        2, running(*BOTH, ready=1), "PodsPending", "1 of 2 pods are ready", [(0, A), (1, B)]
    ),
    "a Pod in a crash loop": Shown(
        1,
        CRASHED,
        "PodsPending",
        "0 of 1 pods are ready: Pod tailscale/peerrelay-edge-0 has restarted: see `kubectl",
        [(0, A)],
    ),
    "a replica that has not logged in": Shown(
        2, running(*BOTH, secret_list=NO_LOGIN), "PodsPending", "1 of 2 pods have joined the tailnet", [(0, A), (1, B)]
    ),
    "an image that is too old": Shown(
        2, running(*BOTH, secret_list=OLD_IMAGE), "ImageTooOld", "give it Tailscale 1.102.5 or newer", [(0, A), (1, B)]
    ),
    "a surplus replica": Shown(1, TWO, READY, READY, [(0, A)]),
    "many load balancers that wait": Shown(
        6, running(*map(balancer, range(6))), PENDING, "peerrelay-edge-0, peerrelay-edge-1, peerrelay-edge-2 and 3 more"
    ),
    "many load balancers with a problem": Shown(
        6, running(*(balancer(number, {}) for number in range(6))), PENDING, "and 3 more load balancers have a problem"
    ),
}


@pytest.mark.parametrize("case", STATUSES.values(), ids=STATUSES)
def test_the_status_of_a_peerrelay_shows_its_endpoints_and_says_what_is_missing(case: Shown) -> None:
    made = plan_of(case.row.obj, case.children, balancers=replace(resolving(), resolved=case.resolved))
    case.check(said_by(made))
    assert condition_of(made)["observedGeneration"] == 7


def test_the_status_of_a_peerrelay_names_a_replica_that_asks_for_another_auth_key() -> None:
    asking = secrets(0, f"{A}:41641", auth_key="old", device_id="n", reissue_authkey="old")
    made = plan_of(live_relay(), running(balancer(0, ip(A)), secret_list=asking), keys=Keys({0: "new"}))
    assert ready(made)[:2] == ("False", "PodsPending")
    assert "could not log in" in ready(made)[2]
    assert config(made)["AuthKey"] == "new"


# Refusals


class Bad(NamedTuple):
    """An invalid *spec* or other facts that make a PeerRelay invalid; the reason and words of its condition."""

    spec: Object
    reason: str
    words: str
    observed: Mapping[str, Any] = MappingProxyType({})
    name: str = "edge"
    is_told: bool = True

    @property
    def row(self) -> Row:
        given = [*self.observed.get("named", ()), *filter(None, [self.observed.get("proxy_class")])]
        return Row(live_relay(self.spec, self.name), self.check, given)

    def check(self, said: Said) -> None:
        status, reason, message = said.ready()
        assert (status, reason, self.words in message) == ("False", self.reason, True), message
        assert (said.reasons, said.makes) == ([self.reason] * self.is_told, False)


def with_env(**env: str) -> Object:
    container = {"env": [{"name": name, "value": value} for name, value in env.items()]}
    return live_proxy_class(spec={"statefulSet": {"pod": {"tailscaleContainer": container}}}, ready=True)


STRANGER = obj(
    SERVICE, Key("tailscale", "peerrelay-edge-1"), labels={**OWNER.labels, "tailscale.com/parent-resource": "b"}
)
CLASS = {"proxyClass": "prod"}
INVALID = "PeerRelayInvalid"
BAD = {
    "too few elastic IPs": Bad(
        {"replicas": 3, "aws": elastic(1, 2)},
        "AWSConfigInvalid",
        "spec.aws.elasticIPs has 2 entries but spec.replicas is 3: give each replica",
    ),
    "replicas": Bad({"replicas": "many"}, INVALID, "replicas"),
    "too many replicas": Bad({"replicas": 101}, INVALID, "at most 100"),
    "a name with a dot": Bad({}, INVALID, "make it anew with another", name="eu.edge"),
    "a long name": Bad({}, INVALID, "at most 42 characters", name="e" * 43),
    "a long prefix": Bad({"hostnamePrefix": "e" * 62}, INVALID, "shorten spec.hostnamePrefix"),
    "a bad annotation": Bad(
        {"service": {"annotations": {"a b": "c"}}}, INVALID, 'spec.service.annotations: "a b": a key is'
    ),
    "no class": Bad(CLASS, "PeerRelayCreationFailed", "create it, or change spec.proxyClass"),
    "a class that isn't ready": Bad(
        CLASS,
        "PodsPending",
        "see the ProxyClassReady condition",
        {"proxy_class": live_proxy_class(spec={"statefulSet": {"labels": {"a b": "x"}}}, ready=False)},
        is_told=False,
    ),
    "a class with the port of relays": Bad(CLASS, INVALID, "leave PORT", {"proxy_class": with_env(PORT="41641")}),
    "a class with that port as a flag": Bad(
        CLASS, INVALID, "leave PORT", {"proxy_class": with_env(TS_TAILSCALED_EXTRA_ARGS="--verbose=1 --port=41641")}
    ),
    "no Tailnet": Bad(
        {"tailnet": "nonesuch"},
        "TailnetUnavailable",
        "create it",
        {"tailnet": TailnetView("nonesuch", refusal=Refusal("create it"))},
    ),
    "a name that another object has": Bad(
        {"replicas": 2},
        "PeerRelayCreationFailed",
        "Service tailscale/peerrelay-edge-1 is in the way",
        {"named": [STRANGER]},
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_the_condition_of_an_invalid_peerrelay_says_how_to_fix_it_and_its_relays_stay(case: Bad) -> None:
    before = {"endpoints": [{"replica": 0, "address": A, "port": 41641}]}
    made = plan_of(case.row.obj | {"status": before}, running(balancer(0, ip(A))), **case.observed)
    case.check(said_by(made))
    assert status_of(made)["endpoints"] == before["endpoints"]


@pytest.mark.virtual_time
async def test_a_peerrelay_on_a_cluster_has_the_status_and_the_events_of_its_plan() -> None:
    await play({name: case.row for name, case in (STATUSES | BAD).items()})


def test_the_condition_of_a_peerrelay_says_why_the_control_server_refuses_an_auth_key() -> None:
    made = plan_of(live_relay(), keys=Refusal("tag:k8s is not permitted"))
    assert ready(made) == ("False", "PeerRelayCreationFailed", "tag:k8s is not permitted")


def test_a_peerrelay_writes_no_status_while_its_proxyclass_is_being_checked_again() -> None:
    changing = live_proxy_class(ready=True, generation=2)
    assert plan_of(live_relay(CLASS), running(balancer(0, ip(A))), proxy_class=changing) == Plan(whole=False)


def test_an_event_names_an_ineffective_annotation_of_a_peerrelay() -> None:
    relay = live_relay(annotations={"tailscale.com/hostname": "gate"})
    assert reasons_of(plan_of(relay, keys=KEYS)) == ["IgnoredAnnotation"]


# Fewer replicas, and deletion


def surplus(**changes: Any) -> Children:
    """Return the children of a PeerRelay with a surplus replica, whose Pod is gone."""
    found = TWO
    return replace(found, statefulsets=[statefulset(1, 1)], pods=found.pods[:1], **changes)


def removed(made: Plan) -> list[str]:
    """Return the objects and devices that the plan *made* deletes, in the order of the deletions."""
    return [
        f"device {step.device}" if isinstance(step, DeleteDevice) else f"{step.obj['kind']} {key_of(step.obj).name}"
        for step in made.steps
        if isinstance(step, DeleteDevice | Deletion)
    ]


def test_the_plan_deletes_the_device_of_a_surplus_relay_without_a_pod_before_its_load_balancer() -> None:
    assert removed(plan_of(live_relay(), surplus())) == [
        "device nodeid-1",
        "Service peerrelay-edge-1",
        "Secret peerrelay-edge-1",
        "Secret peerrelay-edge-1-config",
    ]


def test_a_surplus_relay_stays_while_its_pod_runs_but_its_endpoint_is_removed_at_once() -> None:
    children = TWO
    made = plan_of(live_relay(), replace(children, statefulsets=[statefulset(1, 1)]))
    assert removed(made) == []
    assert (made.requeue_after, listed(made)) == (5.0, [(0, A)])


def test_a_surplus_load_balancer_of_a_relay_is_deleted_even_if_its_secrets_are_gone() -> None:
    children = surplus(secrets=joined(0))
    assert removed(plan_of(live_relay(), children)) == ["Service peerrelay-edge-1"]


def test_the_plan_for_a_deleted_peerrelay_deletes_its_pods_first_and_empties_the_endpoints_in_its_status() -> None:
    relay = {**deleting(held(live_relay())), "status": {"endpoints": [{"replica": 0, "address": A, "port": 41641}]}}
    made = plan_of(relay, running(balancer(0, ip(A))))
    assert removed(made) == ["StatefulSet peerrelay-edge"]
    assert (ready(made)[1], listed(made), made.release) == ("PeerRelayTerminating", [], "")


def test_the_devices_of_a_deleted_peerrelay_without_pods_are_deleted_before_its_load_balancers() -> None:
    children = replace(running(balancer(0, ip(A))), statefulsets=[], pods=[])
    made = plan_of(deleting(held(live_relay())), children)
    assert removed(made) == [
        "device nodeid-0",
        "Service peerrelay-edge-0",
        "Secret peerrelay-edge-0",
        "Secret peerrelay-edge-0-config",
    ]
    assert made.release == FINALIZER


def test_a_deleted_peerrelay_whose_tailnet_is_gone_says_how_to_go_on() -> None:
    tailnet = TailnetView("other", refusal=Refusal("Tailnet 'other' does not exist"))
    ask = parse(deleting(held(live_relay())), SETTINGS)
    made = failed(ask, Observed(Children(), tailnet=tailnet), Refusal("no such Tailnet"))
    assert ready(made) == ("False", "TailnetUnavailable", "no such Tailnet")


def test_a_deleted_peerrelay_says_that_its_tailnet_has_not_been_checked() -> None:
    children = replace(running(balancer(0, ip(A))), statefulsets=[], pods=[])
    waiting = TailnetView("other", pending=RuntimeError())
    made = plan_of(deleting(held(live_relay())), children, tailnet=waiting)
    assert (ready(made)[1], listed(made)) == ("TailnetUnavailable", [])
    assert "delete Secret tailscale/peerrelay-edge-0 by hand" in ready(made)[2]


def test_a_deleted_peerrelay_without_children_is_released_at_once() -> None:
    assert plan_of(deleting(live_relay())) == Plan()


def test_a_peerrelay_waits_for_a_tailnet_that_has_not_been_checked() -> None:
    error = RuntimeError()
    assert plan_of(live_relay(), tailnet=TailnetView("other", pending=error)) == Plan(error=error)


def test_findings_about_devices_of_relays_have_only_the_reasons_podspending_and_peerrelaycreationfailed() -> None:
    assert {*DEVICE_REASONS.values()} == {"PodsPending", "PeerRelayCreationFailed"}
