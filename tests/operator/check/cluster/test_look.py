"""The findings of a whole check in a cluster, one fault at a time."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from clustersim.sim import SimOptions
from tsoperator.api.conditions import condition
from tsoperator.api.objects import (
    CRD,
    DEPLOYMENT,
    EVENT,
    POD,
    RECORDER,
    SERVICE,
    STATEFULSET,
    Key,
    Object,
    is_deleting,
    key_of,
)
from tsoperator.check.findings import OBJECTS, exit_code
from tsoperator.runtime.ownership import Owner

from tests.operator.check.cluster.front import Front, running_front
from tests.operator.check.cluster.samples import deployment, wrong
from tests.operator.proxies import served_name
from tests.support.manifests import backend, connector, credentials, dnsconfig, egress, ingress, proxy_group
from tests.support.objects import HOLD, obj, whole_secret
from tests.support.operator import NAMESPACE, World, new_world, running_operator
from tests.support.othertailnet import OtherTailnet, other_tailnet

pytestmark = pytest.mark.simulated


@pytest.fixture
async def front(cluster: World, tmp_path: Path) -> AsyncIterator[Front]:
    async with running_front(cluster, tmp_path) as front:
        await cluster.becomes(lambda: ready_pods(cluster, "operator"), 2)
        yield front


async def ready_pods(world: World, deployment: str) -> int:
    found = await world.find(DEPLOYMENT, deployment) or {}
    return int((found.get("status") or {}).get("readyReplicas", 0))


async def test_a_check_of_a_healthy_operator_finds_no_fault(front: Front) -> None:
    front.world.peer()
    async with running_operator(front.world):
        await front.world.apply(egress(), ingress(), backend())
        await front.world.joined(ingress())
        await front.world.eventually(lambda: served_name(front.world, ingress()))
        await front.world.joined(egress())
        found = await front.findings()
    assert (wrong(found), exit_code(found)) == ([], 0)
    assert {each.words for each in found if each.check == "proxies"} == {"proxies that serve: 2 of 2"}
    assert {
        "Ingresses of class tailscale that have a name: 1 of 1",
        "devices of proxies that are in the tailnet and online: 2 of 2",
        "objects with a condition of the operator that are served: 1 of 1",
    } <= {each.words for each in found}
    assert front.asked > 100
    assert front.progress[:2] == ["the operator's Deployment", "the operator's Pods"]


async def unscope(front: Front) -> None:
    front.world.control.scopes.remove("devices:core")


async def unscope_services(front: Front) -> None:
    """Remove the scope for Tailscale Services from the credentials, and create a ProxyGroup that needs it."""
    front.world.control.scopes.remove("services")
    await front.world.apply(proxy_group(type="ingress"))


async def forget_secret(front: Front) -> None:
    await front.world.delete(credentials("operator-oauth"))


async def forget_key(front: Front) -> None:
    await front.world.change(credentials("operator-oauth"), {"data": {"client_id": None}})


async def scale_down(front: Front) -> None:
    await front.world.change(deployment(), {"spec": {"replicas": 0}})
    await front.world.becomes(lambda: pods(front.world), [])


async def scale_down_slowly(front: Front) -> None:
    """Scale the operator down, and return while its Pods are ending."""
    for pod in await pods(front.world):
        await front.world.change(pod, HOLD)
    await front.world.change(deployment(), {"spec": {"replicas": 0}})
    await front.world.becomes(lambda: ending_pods(front.world), 2)


async def ending_pods(world: World) -> int:
    return sum(map(is_deleting, await pods(world)))


async def pods(world: World) -> list[Object]:
    return (await world.api.list(POD, NAMESPACE)).items


async def delete_definition(front: Front) -> None:
    await front.world.api.delete(CRD, Key("", "recorders.tailscale.com"))
    await front.world.becomes(partial(front.world.api.serves, RECORDER), False)


async def cut_off(front: Front) -> None:
    front.world.control.refuse(count=99)


async def lose_devices(front: Front) -> None:
    front.world.control.fail(500, count=99, path="/devices")


async def mount_elsewhere(front: Front) -> None:
    await change_pod(front, {"volumes": [{"name": "oauth", "csi": {"driver": "secrets.example.org"}}]})


async def trust_the_cluster(front: Front) -> None:
    token = {"serviceAccountToken": {"audience": "api.example.org/k", "path": "token"}}
    await change_pod(front, {"volumes": [{"name": "oidc-jwt", "projected": {"sources": [token]}}]}, CLIENT_ID="other")


async def change_pod(front: Front, spec: Object, **env: str) -> None:
    """Change the Pod template of the operator's Deployment; the Pods that run don't change."""
    changed = deployment({"OPERATOR_LOGIN_SERVER": front.world.control_url, **env}, **spec)
    await front.world.change(changed, {"spec": changed["spec"]})


def front_with(**attributes: object) -> Callable[[Front], Awaitable[None]]:
    """Return a function that sets *attributes* of the `Front`, or of the control server of its world."""

    async def change(front: Front) -> None:
        for name, value in attributes.items():
            setattr(front if hasattr(front, name) else front.world.control, name, value)

    return change


BLIND = "can't look"
RULES = [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}]
GATE = {"service": {"namespace": "policies", "name": "gate"}}
WEBHOOK = {"metadata": {"name": "gate"}, "webhooks": [{"name": "x.org", "clientConfig": GATE, "rules": RULES}]}
PAGES = ("/proxy/metrics", "/proxy/readyz")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
NOT_ACCEPTED = "the control server does not accept the OAuth client"
NO_ID = "no usable client_id in Secret tailscale/operator-oauth"
FAULTS: list[tuple[Callable[[Front], Awaitable[None]], str, str]] = [
    (front_with(client_secret="another"), "tailnet/credentials FAILED", NOT_ACCEPTED),
    (front_with(own_tags=[]), "tailnet/tags FAILED", "the OAuth client may not give tags to devices"),
    (unscope, "tailnet/devices FAILED", "the OAuth client may not see and change devices"),
    (unscope_services, "tailnet/services FAILED", "the OAuth client may not write Tailscale Services"),
    (forget_secret, "tailnet/credentials FAILED", NO_ID),
    (forget_key, "tailnet/credentials FAILED", NO_ID),
    (front_with(denied={"patch services"}), "rights FAILED", "the operator may not patch services"),
    (front_with(labels=RESTRICTED), "pod-security FAILED", "tailscale enforces Pod security 'restricted'"),
    (front_with(webhooks=[WEBHOOK]), "webhooks FAILED", "Service policies/gate has no ready Pod"),
    (front_with(pods=503), "operator FAILED, operator FAILED", "not ready: cache: not listed yet: services"),
    (scale_down, "operator FAILED", "Deployment tailscale/operator is scaled to 0"),
    (scale_down_slowly, "operator FAILED", "Deployment tailscale/operator is scaled to 0"),
    (delete_definition, "crds FAILED", "the cluster has no Recorder"),
    (front_with(secret=PAGES), f"leader {BLIND}", "so whether it leads is unknown: GET /api/v1/namespaces/"),
    (front_with(refusal="no route to host"), f"leader {BLIND}", "no route to host"),
    (front_with(metrics=404), "operator FAILED, operator FAILED", "its port of metrics shows none (HTTP 404)"),
    (
        front_with(secret=("/pods",)),
        f"operator {BLIND}, proxies {BLIND}, devices {BLIND}",
        "the operator's Pods: GET /api/v1/namespaces/tailscale/pods: may not",
    ),
    (front_with(secret=("/v1alpha1",)), f"crds {BLIND}", "custom resource definitions"),
    (cut_off, f"devices {BLIND}", "the control server can't be asked from here"),
    (lose_devices, f"devices {BLIND}", "the devices of the tailnet can't be listed: GET"),
    (mount_elsewhere, f"devices {BLIND}", "the operator's credentials are in no Secret"),
    (trust_the_cluster, "tailnet/credentials FAILED", NOT_ACCEPTED),
]


@pytest.mark.parametrize(("make", "told", "words"), FAULTS, ids=[words for _, _, words in FAULTS])
async def test_a_check_finds_exactly_the_fault_that_exists(
    front: Front, make: Callable[[Front], Awaitable[None]], told: str, words: str
) -> None:
    await make(front)
    found = [each for each in await front.findings() if each.verdict != "ok"]
    assert ", ".join(f"{each.check} {each.verdict}" for each in found) == told
    assert words in found[0].words


async def test_a_check_finds_no_fault_if_an_old_pod_of_the_operator_leads_until_it_ends(front: Front) -> None:
    old = (await pods(front.world))[0]
    await front.world.change(old, {"metadata": {"finalizers": ["example.org/hold"]}})
    await front.world.delete(old)
    await front.world.becomes(lambda: ready_pods(front.world, "operator"), 2)
    front.leader = key_of(old).name
    found = await front.findings()
    assert wrong(found) == []
    assert f"operator at {front.leader} leads, until it ends" in [each.words for each in found]


async def test_a_check_reports_each_fault_of_the_tailnet_with_a_cure_or_an_explanation_of_its_own(front: Front) -> None:
    control = front.world.control
    control.scopes.remove("devices:core")
    control.fail(500, count=99, path="/devices")
    found = {each.check: each for each in await front.findings()}
    assert found["tailnet/devices"].cure.startswith("the operator's OAuth client has not the scope Devices Core")
    assert found["devices"].words.startswith("the control server can't be asked from here: GET http")


async def test_a_namespace_without_the_operator_is_a_finding(front: Front) -> None:
    (found,) = await front.findings("default")
    assert found.words == "no Deployment in namespace default runs this operator"


async def test_a_cluster_that_does_not_answer_cannot_be_checked(front: Front) -> None:
    front.kubeconfig.unlink()
    (found,) = await front.findings()
    assert (found.verdict.value, exit_code([found])) == (BLIND, 2)
    assert "there is no file" in found.words


async def test_a_check_logs_in_by_workload_identity_with_a_token_of_the_operators_serviceaccount(front: Front) -> None:
    await trust_the_cluster(front)
    front.world.control.client_id, front.world.control.audience = "other", "api.example.org/k"
    assert wrong(await front.findings()) == []


@pytest.mark.parametrize(
    ("watched", "of", "seen"),
    [
        ("", None, True),
        ("default", None, True),
        ("team-a", None, False),
        ("", "default", True),
        ("", "team-a", False),
    ],
)
async def test_a_check_reports_only_objects_in_watched_and_chosen_namespaces(
    front: Front, watched: str, of: str | None, seen: bool
) -> None:
    told = condition("TailscaleProxyReady", False, "TargetNotFound", "no such name")
    await front.world.apply(egress())
    live = await front.world.look(egress())
    await front.world.api.replace_status(SERVICE, {**live, "status": {"conditions": [told]}})
    await change_pod(front, {}, OPERATOR_WATCH_NAMESPACES=watched)
    found = [each.check for each in await front.findings(of=of) if "no such name" in each.words]
    assert found == [OBJECTS] * seen


async def test_a_check_reads_the_warnings_about_objects_whose_conditions_say_nothing(front: Front) -> None:
    router = connector()
    async with running_operator(front.world):
        await front.world.apply(egress(hostnam="db"), router)
        await front.world.annotate(router, {"tailscale.com/hostname": "a"})
        await front.world.becomes(lambda: warnings(front.world), 2)
    found = [each for each in await front.findings() if "IgnoredAnnotation" in each.words]
    assert [each.check for each in found] == [OBJECTS] * 2
    assert found[0].words.startswith("Service default/db: IgnoredAnnotation: the operator doesn't know annotation")
    # A list of all Events could be too long.
    assert "type=Warning,reportingComponent=tailscale-operator" in front.selectors
    await change_pod(front, {}, OPERATOR_WATCH_NAMESPACES="team-a")
    found = [each for each in await front.findings() if "IgnoredAnnotation" in each.words]
    assert [each.words.partition(":")[0] for each in found] == [f"Connector {key_of(router)}"]


async def warnings(world: World) -> int:
    return sum(each["type"] == "Warning" for each in (await world.api.list(EVENT)).items)


async def of_devices(front: Front) -> list[str]:
    """Return the findings about two Connectors that report the same device.

    One of the Connectors is in the tailnet ``lab``.
    """
    router = connector(tailnet="lab")
    await front.world.apply(router)
    for made in (router, connector("second")):
        labels = Owner("connector", Key("", key_of(made).name)).labels
        name = f"ts-{key_of(made).name}"
        secret = whole_secret(f"{name}-0", {"device_id": "n000001CNTRL"}, labels)
        await front.world.apply(secret, statefulset(name, labels))
    return [each.words for each in await front.findings() if each.check == "devices"]


@pytest.mark.parametrize("audience", ["", "lab.example.org"])
async def test_a_check_looks_for_the_device_of_another_tailnet_in_that_tailnet(front: Front, audience: str) -> None:
    async with other_tailnet(front.world) as lab:
        front.world.peer("router", lab.control)
        lab.control.audience = audience
        secret = lab.secret(client_id=lab.control.client_id, audience=audience) if audience else lab.secret()
        await front.world.apply(secret, lab.tailnet())
        assert await of_devices(front) == ["device n000001CNTRL of Connector second is not in the tailnet any more"]


OfLab = Callable[[OtherTailnet], list[Object]]
UNLISTED: dict[str, OfLab] = {
    "it does not exist": lambda _: [],
    'referenced secret "lab-oauth" does not exist': lambda lab: [lab.tailnet()],
    'spec.loginUrl "ftp://x" is not the URL': lambda lab: [lab.secret(), lab.tailnet("ftp://x")],
    "API token invalid": lambda lab: [lab.secret(client_id="x", client_secret="y"), lab.tailnet()],
}


@pytest.mark.parametrize(("words", "objects"), UNLISTED.items(), ids=UNLISTED)
async def test_a_tailnet_that_does_not_answer_is_a_finding(front: Front, words: str, objects: OfLab) -> None:
    async with other_tailnet(front.world) as lab:
        await front.world.apply(*objects(lab))
        blind, lost = await of_devices(front)
    assert blind.startswith("the devices of Tailnet lab can't be listed: ")
    assert words in blind
    assert "Connector second" in lost


def statefulset(name: str, labels: Mapping[str, str]) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "example"}]}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return obj(STATEFULSET, Key(NAMESPACE, name), {"spec": spec}, labels={**labels})


async def test_a_check_reports_that_the_clusters_dns_does_not_forward_to_a_nameserver_that_runs(front: Front) -> None:
    async with running_operator(front.world, zones=("tail1234.ts.net",)):
        await front.world.apply(dnsconfig())
        await front.world.becomes(lambda: front.world.reason(dnsconfig(), "NameserverReady"), "NameserverCreated")
        found = await front.findings()
    service = await front.world.find(SERVICE, "nameserver")
    assert service
    assert "the nameserver runs, with 1 ready Pod" in [each.words for each in found]
    (missing,) = (each for each in found if each.verdict != "ok")
    assert missing.cure.startswith(f"forward tail1234.ts.net to {service['spec']['clusterIP']}: ")


@pytest.mark.parametrize("owner", [Owner("svc", Key("default", "db")), Owner("recorder", Key("", "db"))], ids=str)
async def test_the_finding_for_pods_that_the_api_server_refuses_has_the_reason(tmp_path: Path, owner: Owner) -> None:
    labels = owner.labels
    async with new_world(SimOptions(controllers=False)) as world, running_front(world, tmp_path) as front:
        await world.apply(statefulset("ts-db-1a2b3", labels))
        about = {"kind": STATEFULSET.kind, "namespace": NAMESPACE, "name": "ts-db-1a2b3"}
        for reason, words in (("FailedCreate", "violates PodSecurity"), ("SuccessfulDelete", "deleted Pod")):
            metadata = {"namespace": NAMESPACE, "name": reason.lower()}
            event = {"metadata": metadata, "involvedObject": about, "reason": reason, "message": words}
            await world.api.create(EVENT, event)
        (found,) = (each for each in await front.findings() if each.check == "proxies")
    assert found.words.endswith("Pod ts-db-1a2b3-0: violates PodSecurity")
