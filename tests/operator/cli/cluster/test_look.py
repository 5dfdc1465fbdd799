"""What a check gathers in a cluster, part by part."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from clustersim.sim import SimOptions
from tsoperator.api.conditions import condition
from tsoperator.api.objects import (
    CRD,
    DEPLOYMENT,
    EVENT,
    POD,
    RECORDER,
    SECRET,
    SERVICE,
    STATEFULSET,
    Key,
    Object,
    key_of,
)
from tsoperator.cli.findings import exit_code
from tsoperator.desired.children import Owner

from tests.operator.cli.cluster.front import Front, findings, running_front
from tests.operator.cli.cluster.samples import deployment, wrong
from tests.operator.proxies import served_name
from tests.support.manifests import backend, connector, dnsconfig, egress, ingress
from tests.support.objects import obj, whole_secret
from tests.support.operator import NAMESPACE, World, new_world, running_operator
from tests.support.othertailnet import OtherTailnet, other_tailnet

pytestmark = pytest.mark.simulated


@pytest.fixture
async def front(cluster: World, tmp_path: Path) -> AsyncIterator[Front]:
    async with running_front(cluster, tmp_path) as front:
        await cluster.eventually(lambda: pods_run(cluster))
        yield front


async def pods_run(world: World) -> bool:
    found = await world.find(DEPLOYMENT, "operator")
    return bool(found and (found.get("status") or {}).get("readyReplicas") == 2)


async def test_an_operator_that_is_well_has_nothing_wrong(front: Front, tmp_path: Path) -> None:
    front.world.peer()
    service = egress()
    async with running_operator(front.world):
        await front.world.apply(service, ingress(), backend())
        await front.world.joined(ingress())
        await front.world.eventually(lambda: served_name(front.world, ingress()))
        await front.world.joined(service)
        found = await findings(front, tmp_path)
    assert (wrong(found), exit_code(found)) == ([], 0)
    words = [each.words for each in found]
    assert "Ingresses of class tailscale that have a name: 1 of 1" in words
    assert "proxies that serve: 2 of 2" in words
    assert "devices of proxies that are in the tailnet and online: 2 of 2" in words
    assert "objects with a condition of the operator that are served: 1 of 1" in words
    assert front.asked > 100
    assert front.progress[:2] == ["the operator's Deployment", "the operator's Pods"]


async def revoke(front: Front) -> None:
    front.world.control.client_secret = "another"


async def untag(front: Front) -> None:
    front.world.control.own_tags = []


async def unscope(front: Front) -> None:
    front.world.control.scopes.remove("devices:core")


async def forget_secret(front: Front) -> None:
    await front.world.api.delete(SECRET, Key(NAMESPACE, "operator-oauth"))


async def forget_key(front: Front) -> None:
    await front.world.api.patch(SECRET, Key(NAMESPACE, "operator-oauth"), {"data": {"client_id": None}})


async def scale_down(front: Front) -> None:
    await front.world.api.patch(DEPLOYMENT, Key(NAMESPACE, "operator"), {"spec": {"replicas": 0}})
    await front.world.eventually(lambda: no_pods(front.world))


async def no_pods(world: World) -> bool:
    return not (await world.api.list(POD, NAMESPACE)).items


async def delete_definition(front: Front) -> None:
    await front.world.api.delete(CRD, Key("", "recorders.tailscale.com"))
    await front.world.eventually(lambda: is_withdrawn(front.world))


async def is_withdrawn(world: World) -> bool:
    return not await world.api.serves(RECORDER)


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
    """Change the spec of the operator's Pods, which stay as they are."""
    changed = deployment({"OPERATOR_LOGIN_SERVER": front.world.control_url, **env}, **spec)
    await front.world.api.patch(DEPLOYMENT, Key(NAMESPACE, "operator"), {"spec": changed["spec"]})


def front_with(**attributes: object) -> Callable[[Front], Awaitable[None]]:
    """Return what gives the front these *attributes*."""

    async def change(front: Front) -> None:
        for name, value in attributes.items():
            setattr(front, name, value)

    return change


class Fault(NamedTuple):
    make: Callable[[Front], Awaitable[None]]
    found: str
    words: str


BLIND = "can't look"
RULES = [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}]
GATE = {"service": {"namespace": "policies", "name": "gate"}}
WEBHOOK = {"metadata": {"name": "gate"}, "webhooks": [{"name": "x.org", "clientConfig": GATE, "rules": RULES}]}
PAGES = ("/proxy/metrics", "/proxy/readyz")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
NOT_ACCEPTED = "the control server does not accept the OAuth client"
NO_ID = "no usable client_id in Secret tailscale/operator-oauth"
FAULTS = [
    Fault(revoke, "tailnet/credentials FAILED", NOT_ACCEPTED),
    Fault(untag, "tailnet/tags FAILED", "the OAuth client may not give tags to devices"),
    Fault(unscope, "tailnet/devices FAILED", "the OAuth client may not see and change devices"),
    Fault(forget_secret, "tailnet/credentials FAILED", NO_ID),
    Fault(forget_key, "tailnet/credentials FAILED", NO_ID),
    Fault(front_with(denied={"patch services"}), "rights FAILED", "the operator may not patch services"),
    Fault(front_with(labels=RESTRICTED), "pod-security FAILED", "tailscale enforces Pod security 'restricted'"),
    Fault(front_with(webhooks=[WEBHOOK]), "webhooks FAILED", "Service policies/gate has no ready Pod"),
    Fault(front_with(pods=503), "operator FAILED, operator FAILED", "not ready: cache: not listed yet: services"),
    Fault(scale_down, "operator FAILED", "Deployment tailscale/operator is scaled to 0"),
    Fault(delete_definition, "crds FAILED", "the cluster has no Recorder"),
    Fault(front_with(secret=PAGES), f"leader {BLIND}", "so whether it leads is unknown: GET /api/v1/namespaces/"),
    Fault(front_with(refusal="no route to host"), f"leader {BLIND}", "no route to host"),
    Fault(front_with(metrics=404), "operator FAILED, operator FAILED", "its port of metrics shows none (HTTP 404)"),
    Fault(
        front_with(secret=("/pods",)),
        f"operator {BLIND}, proxies {BLIND}, devices {BLIND}",
        "the operator's Pods: GET /api/v1/namespaces/tailscale/pods: may not",
    ),
    Fault(front_with(secret=("/v1alpha1",)), f"crds {BLIND}", "custom resource definitions"),
    Fault(cut_off, f"devices {BLIND}", "the control server can't be asked from here"),
    Fault(lose_devices, f"devices {BLIND}", "the devices of the tailnet can't be listed: GET"),
    Fault(mount_elsewhere, f"devices {BLIND}", "the operator's credentials are in no Secret"),
    Fault(trust_the_cluster, "tailnet/credentials FAILED", NOT_ACCEPTED),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.words)
async def test_a_fault_is_found_alone(front: Front, tmp_path: Path, fault: Fault) -> None:
    await fault.make(front)
    found = [each for each in await findings(front, tmp_path) if each.verdict != "ok"]
    assert ", ".join(f"{each.check} {each.verdict}" for each in found) == fault.found
    assert fault.words in found[0].words


async def test_a_namespace_without_the_operator_is_told(front: Front, tmp_path: Path) -> None:
    (found,) = await findings(front, tmp_path, "default")
    assert found.words == "no Deployment in namespace default runs this operator"


async def test_a_cluster_that_is_away_can_not_be_looked_at(front: Front, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").unlink()
    (found,) = await findings(front, tmp_path)
    assert (found.verdict.value, exit_code([found])) == (BLIND, 2)
    assert "there is no file" in found.words


async def test_workload_identity_gets_a_token_of_the_operator(front: Front, tmp_path: Path) -> None:
    await trust_the_cluster(front)
    front.world.control.client_id, front.world.control.audience = "other", "api.example.org/k"
    assert wrong(await findings(front, tmp_path)) == []


@pytest.mark.parametrize(("watched", "seen"), [("", True), ("default", True), ("team-a", False)])
async def test_objects_of_namespaces_that_are_watched_are_told(
    front: Front, tmp_path: Path, watched: str, seen: bool
) -> None:
    told = condition("TailscaleProxyReady", False, "TargetNotFound", "no such name")
    created = await front.world.api.create(SERVICE, egress())
    await front.world.api.replace_status(SERVICE, {**created, "status": {"conditions": [told]}})
    await change_pod(front, {}, OPERATOR_WATCH_NAMESPACES=watched)
    assert ("no such name" in str(wrong(await findings(front, tmp_path)))) is seen


async def of_devices(front: Front, folder: Path) -> list[str]:
    """Return what is found of the devices of two Connectors that report the same: one is in the tailnet ``lab``."""
    router = connector(tailnet="lab")
    await front.world.apply(router)
    for made in (router, connector("second")):
        labels = Owner("connector", Key("", key_of(made).name)).labels
        name = f"ts-{key_of(made).name}"
        await front.world.api.create(SECRET, whole_secret(f"{name}-0", {"device_id": "n000001CNTRL"}, labels))
        await front.world.api.create(STATEFULSET, statefulset(name, labels))
    return [each.words for each in await findings(front, folder) if each.check == "devices"]


@pytest.mark.parametrize("audience", ["", "lab.example.org"])
async def test_devices_in_another_tailnet_are_looked_for_there(front: Front, tmp_path: Path, audience: str) -> None:
    async with other_tailnet(front.world) as lab:
        front.world.peer("router", lab.control)
        lab.control.audience = audience
        secret = lab.secret(client_id=lab.control.client_id, audience=audience) if audience else lab.secret()
        await front.world.apply(secret, lab.tailnet())
        assert await of_devices(front, tmp_path) == [
            "device n000001CNTRL of Connector second is not in the tailnet any more"
        ]


class Unlisted(NamedTuple):
    """Why the devices of a Tailnet can't be listed: what is there of it, and the words that say so."""

    objects: Callable[[OtherTailnet], list[Object]]
    words: str


UNLISTED = {
    "no Tailnet": Unlisted(lambda _: [], "it does not exist"),
    "no Secret": Unlisted(lambda lab: [lab.tailnet()], 'referenced secret "lab-oauth" does not exist'),
    "a bad URL": Unlisted(lambda lab: [lab.secret(), lab.tailnet("ftp://x")], 'spec.loginUrl "ftp://x" is not the URL'),
    "a bad client": Unlisted(
        lambda lab: [lab.secret(client_id="x", client_secret="y"), lab.tailnet()], "API token invalid"
    ),
}


@pytest.mark.parametrize("case", UNLISTED.values(), ids=UNLISTED)
async def test_a_tailnet_that_can_not_be_asked_is_told(front: Front, tmp_path: Path, case: Unlisted) -> None:
    async with other_tailnet(front.world) as lab:
        await front.world.apply(*case.objects(lab))
        blind, lost = await of_devices(front, tmp_path)
    assert blind.startswith("the devices of Tailnet lab can't be listed: ")
    assert case.words in blind
    assert "Connector second" in lost


def statefulset(name: str, labels: Mapping[str, str]) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "example"}]}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return obj(STATEFULSET, Key(NAMESPACE, name), {"spec": spec}, labels={**labels})


async def test_a_nameserver_is_compared_with_the_clusters_dns(front: Front, tmp_path: Path) -> None:
    async with running_operator(front.world, zones=("tail1234.ts.net",)):
        await front.world.apply(dnsconfig())
        deployment = await front.world.eventually(lambda: front.world.find(DEPLOYMENT, "nameserver"))
        await front.world.eventually(lambda: is_up(front.world, deployment))
        found = await findings(front, tmp_path)
    service = await front.world.find(SERVICE, "nameserver")
    assert service
    assert "the nameserver runs, with 1 ready Pod" in [each.words for each in found]
    (missing,) = (each for each in found if each.verdict != "ok")
    assert missing.cure.startswith(f"forward tail1234.ts.net to {service['spec']['clusterIP']}: ")


async def is_up(world: World, deployment: Object) -> bool:
    return bool((await world.look(deployment)).get("status", {}).get("readyReplicas"))


async def test_pods_that_are_refused_are_told_with_the_reason(tmp_path: Path) -> None:
    labels = Owner("svc", Key("default", "db")).labels
    async with new_world(SimOptions(controllers=False)) as world, running_front(world, tmp_path) as front:
        created = await world.api.create(STATEFULSET, statefulset("ts-db-1a2b3", labels))
        for reason, words in (("FailedCreate", "violates PodSecurity"), ("SuccessfulDelete", "deleted Pod")):
            await world.api.create(EVENT, event(created, reason, words))
        (found,) = (each for each in await findings(front, tmp_path) if each.check == "proxies")
    assert found.words.endswith("Pod ts-db-1a2b3-0: violates PodSecurity")


def event(about: Object, reason: str, message: str) -> Object:
    key = key_of(about)
    reference = {"kind": STATEFULSET.kind, "namespace": key.namespace, "name": key.name}
    metadata = {"namespace": key.namespace, "name": reason.lower()}
    return {"metadata": metadata, "involvedObject": reference, "reason": reason, "message": message}
