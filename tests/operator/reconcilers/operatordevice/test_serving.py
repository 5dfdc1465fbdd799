"""The API server proxy on a cluster with a running operator."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest
from clustersim.faults import LOST, Failure
from clustersim.processes import free_port
from clustersim.sim import SimOptions
from clustersim.tailnet import NewKey
from tsoperator.api.apiserver import ProxyMode
from tsoperator.api.device import Device
from tsoperator.api.objects import (
    DEPLOYMENT,
    DEVICE,
    EVENT,
    POD,
    SECRET,
    STATEFULSET,
    Key,
    Object,
    Resource,
    key_of,
    uid,
)
from tsoperator.reconcilers.operatordevice.reconciler import operatordevices
from tsoperator.runtime.clock import utc_now
from tsoperator.tailnet.tailnet import OWN, device_object

from tests.operator.contract.memory import remembered
from tests.operator.reconcilers.operatordevice.facts import IMAGE
from tests.support.manifests import backend, ingress, proxy_group
from tests.support.objects import OPERATOR_NAMESPACE, settings, slim_secret, texts, whole_secret
from tests.support.operator import NAMESPACE, World, is_ready, meant, new_world, running_operator
from tests.support.shown import Shown

pytestmark = pytest.mark.simulated

NAME = "operator"
PROXY = f"{NAME}-apiserver-proxy"
CONFIG = f"{NAME}-config"
POD_NAME = "operator-7d9f8c4b5-x2x2x"
HOSTNAME = "tailscale-operator"
ACCOUNT: Object = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"namespace": NAMESPACE, "name": PROXY},
}
_LABELS = {"app": NAME, "tailscale.com/operator": "tsoperator"}
_SPEC: Object = {"containers": [{"name": "operator", "image": IMAGE}], "schedulerName": "none"}
POD_OF_OPERATOR: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": NAMESPACE, "name": POD_NAME, "labels": _LABELS},
    "spec": {**_SPEC, "nodeSelector": {"kubernetes.io/os": "linux"}},
}
"""The operator's own Pod, which no kubelet runs, because the operator runs in the process of the test."""
DEPLOYED: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"namespace": NAMESPACE, "name": NAME},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": _LABELS},
        "template": {"metadata": {"labels": _LABELS}, "spec": _SPEC},
    },
}
"""The operator's own Deployment."""


@pytest.fixture(autouse=True)
async def _installed(cluster: World) -> None:
    """Create the operator's Deployment and Pod, and the ServiceAccount that the chart has for the proxy."""
    await cluster.apply(DEPLOYED, POD_OF_OPERATOR, ACCOUNT)


@asynccontextmanager
async def serving(world: World, mode: ProxyMode = ProxyMode.AUTH, **settings: Any) -> AsyncIterator[Any]:
    """Run an operator with an API server proxy in this *mode*."""
    given = {"operator_secret": NAME, "pod_name": POD_NAME, "operator_image": IMAGE, **settings}
    async with running_operator(world, apiserver_proxy=mode, **given) as task:
        yield task


async def pod(world: World, other_than: str = "") -> Object | None:
    """Return the ready Pod of the proxy whose UID isn't *other_than*; None if there is none."""
    found = [each for each in (await world.api.list(POD, NAMESPACE)).items if key_of(each).name.startswith(PROXY)]
    return next((each for each in found if is_ready(each) and uid(each) != other_than), None)


async def state(world: World) -> dict[str, str]:
    """Return the state of the device from the operator's Secret; empty if there is no Secret."""
    secret = await world.find(SECRET, NAME)
    return texts(secret) if secret else {}


async def joined(world: World, other_than: str = "") -> str:
    """Wait until the proxy runs with a device other than *other_than*, and return the ID of the device."""

    async def device() -> str:
        found = await state(world)
        is_there = {"device_id", "https_endpoint"} <= found.keys() and "reissue_authkey" not in found
        return found["device_id"] if is_there and found["device_id"] != other_than and await pod(world) else ""

    found = await world.eventually(device)
    await world.settled()
    return found


async def config(world: World) -> dict[str, str]:
    secret = await world.find(SECRET, CONFIG)
    return texts(secret) if secret else {}


async def told(world: World) -> list[Object]:
    """Return the Events on the operator's own Deployment."""
    found = (await world.api.list(EVENT)).items
    about = (("kind", "Deployment"), ("name", NAME))
    ours = (each for each in found if each["source"].get("component") == "tailscale-operator")
    return [each for each in ours if all(each["involvedObject"][field] == value for field, value in about)]


async def counts(world: World) -> dict[str, int]:
    """Return the reasons of the Events on the operator's own Deployment, each with its count."""
    return {each["reason"]: each["count"] for each in await told(world)}


async def says(world: World, words: str) -> bool:
    """Tell whether an Event on the operator's own Deployment contains these *words*."""
    return any(words in each["message"] for each in await told(world))


@pytest.mark.parametrize("mode", [ProxyMode.AUTH, ProxyMode.NOAUTH])
async def test_the_operator_makes_the_api_server_proxy_with_a_device_and_writes_nothing_after_that(
    cluster: World, mode: ProxyMode
) -> None:
    async with serving(cluster, mode, operator_hostname="gate", operator_tags=("tag:gate",)):
        device = cluster.control.devices[await joined(cluster)]
        assert (device.hostname, device.tags) == ("gate", ("tag:gate",))
        assert await cluster.find(STATEFULSET, f"{NAME}-device") is None
        secret = await cluster.find(SECRET, NAME)
        assert secret is not None
        assert "labels" not in secret["metadata"]
        assert "AuthKey" not in (await config(cluster))["cap-107.hujson"]
        made = await cluster.find(DEPLOYMENT, PROXY)
        assert made is not None
        assert made["spec"]["template"]["spec"]["nodeSelector"] == POD_OF_OPERATOR["spec"]["nodeSelector"]
        assert not await cluster.writes_when_left_alone()
        assert await told(cluster) == []


async def test_an_operator_that_starts_again_writes_nothing_for_its_api_server_proxy(cluster: World) -> None:
    async with serving(cluster):
        await joined(cluster)
    async with serving(cluster):
        assert not await cluster.writes_when_left_alone()


def adopted(world: World) -> Object:
    """Let the device of a Go operator join the tailnet, and return the Secret with the state of the device."""
    device = world.control.register(world.control.create_key(NewKey(("tag:go",))).key, HOSTNAME)
    profile = {"Config": {"NodeID": device.node_id, "PrivateNodeKey": "privkey:1"}, "Hostname": HOSTNAME}
    return whole_secret(NAME, {"_current-profile": "profile-1a2b", "profile-1a2b": profile, "_machinekey": "privkey:2"})


async def test_the_device_of_a_go_operator_is_adopted_with_its_name_addresses_and_tags(cluster: World) -> None:
    await cluster.apply(adopted(cluster))
    (before,) = cluster.control.devices.values()
    keys = len(cluster.control.keys)
    async with serving(cluster):
        assert await joined(cluster) == before.node_id
        await cluster.becomes(lambda: served(cluster), [])
        (now,) = cluster.control.devices.values()
        assert (now.name, now.addresses, now.tags) == (before.name, before.addresses, ("tag:go",))
        assert len(cluster.control.keys) == keys


async def served(world: World) -> list[str]:
    """Return the keys of the serve configs in the state of the device.

    The tailscaled of a Go operator would apply these configs.
    """
    return [name for name in await state(world) if name.startswith("_serve_")]


async def test_the_private_keys_of_the_operators_device_are_never_in_the_memory_of_the_operator(cluster: World) -> None:
    secret = adopted(cluster)
    copy = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(secret["data"])}
    await cluster.apply({**secret, "metadata": {**secret["metadata"], "annotations": copy}})
    async with serving(cluster) as operator:
        await joined(cluster)
        assert remembered(operator, "privkey", secret["data"]["_machinekey"]) == []
        assert any(".objects" in path for path in remembered(operator, PROXY))


async def test_the_operator_does_not_run_its_device_while_a_go_operator_still_runs_it(cluster: World) -> None:
    metadata = {"namespace": NAMESPACE, "name": "operator-go", "labels": {"app": NAME}}
    theirs: Object = {**POD_OF_OPERATOR, "metadata": metadata}
    await cluster.delete(ACCOUNT)
    async with serving(cluster):
        await cluster.settled()
        await cluster.apply(theirs, ACCOUNT)
        await cluster.eventually(lambda: says(cluster, "another operator may still run (operator-go)"))
        assert await cluster.find(DEPLOYMENT, PROXY) is None
        await cluster.delete(theirs)
        assert await joined(cluster)


DRIFT: dict[str, tuple[Resource, str, Object]] = {
    "replicas": (DEPLOYMENT, PROXY, {"spec": {"replicas": 0}}),
    "placement": (DEPLOYMENT, PROXY, {"spec": {"template": {"spec": {"nodeSelector": None}}}}),
    "owner": (DEPLOYMENT, PROXY, {"metadata": {"ownerReferences": None}}),
    "labels": (DEPLOYMENT, PROXY, {"metadata": {"labels": {"tailscale.com/managed": None}}}),
    "serve config": (SECRET, CONFIG, {"data": {"serve-config": "e30="}}),
    "config": (SECRET, CONFIG, {"data": {"cap-107.hujson": None}}),
}


@pytest.mark.parametrize(("resource", "name", "patch"), DRIFT.values(), ids=DRIFT)
async def test_the_operator_repairs_objects_of_the_api_server_proxy_that_somebody_else_has_changed(
    cluster: World, resource: Resource, name: str, patch: Object
) -> None:
    async with serving(cluster):
        device = await joined(cluster)
        before = await cluster.find(resource, name)
        assert before is not None
        await cluster.change(before, patch)
        await cluster.becomes(lambda: right(cluster, before), right_of(before))
        assert await joined(cluster) == device


async def right(world: World, obj: Object) -> Object:
    return right_of(await world.look(obj))


def right_of(obj: Object) -> Object:
    found = meant(obj)
    return {**found, "metadata": {**found["metadata"], "annotations": None}}


@pytest.mark.parametrize(("resource", "name"), [(DEPLOYMENT, PROXY), (SECRET, CONFIG)], ids=["Deployment", "config"])
async def test_the_operator_restores_objects_of_the_api_server_proxy_that_somebody_else_has_deleted(
    cluster: World, resource: Resource, name: str
) -> None:
    async with serving(cluster):
        device = await joined(cluster)
        before = await cluster.find(resource, name)
        assert before is not None
        await cluster.delete(before)
        await cluster.eventually(lambda: cluster.replaced(before))
        assert await joined(cluster) == device


async def test_a_change_of_the_hostname_renames_the_operators_device_and_restarts_no_pod(cluster: World) -> None:
    async with serving(cluster):
        device, before = await joined(cluster), await pod(cluster)
    async with serving(cluster, operator_hostname="gate"):
        await cluster.becomes(cluster.device_names, ["gate.tail1234.ts.net"])
        assert await joined(cluster) == device
        assert uid(await pod(cluster) or {}) == uid(before or {})


async def test_a_change_of_the_mode_of_the_api_server_proxy_replaces_its_pod_and_keeps_the_device(
    cluster: World,
) -> None:
    async with serving(cluster):
        device, before = await joined(cluster), await pod(cluster)
    async with serving(cluster, ProxyMode.NOAUTH, apiserver_proxy_http=True):
        await cluster.eventually(lambda: pod(cluster, uid(before or {})))
        assert await joined(cluster) == device
        assert '"80"' in (await config(cluster))["serve-config"]


async def test_only_the_device_and_its_state_stay_when_the_api_server_proxy_is_turned_off(cluster: World) -> None:
    async with serving(cluster):
        device = await joined(cluster)
    await cluster.api.delete(SECRET, Key(NAMESPACE, CONFIG))
    async with serving(cluster, ProxyMode.OFF):
        await cluster.eventually(lambda: cluster.gone({**ACCOUNT, "apiVersion": "apps/v1", "kind": "Deployment"}))
        await cluster.settled()
        assert await config(cluster) == {}
        assert (await state(cluster))["device_id"] == device
        assert [*cluster.control.devices] == [device]
        assert not await cluster.writes_when_left_alone()


async def test_the_api_server_proxy_continues_the_registration_that_a_statefulset_has_begun(
    cluster: World,
) -> None:
    cluster.control.silent.add(HOSTNAME)
    async with serving(cluster, ProxyMode.OFF):
        await cluster.apply(backend(), proxy_group("pg", type="ingress"), ingress(proxy_group="pg"))
        await cluster.eventually(lambda: cluster.find(STATEFULSET, f"{NAME}-device"))
        await cluster.settled()
    async with serving(cluster):
        await cluster.eventually(lambda: cluster.find(DEPLOYMENT, PROXY))
        assert await cluster.find(STATEFULSET, f"{NAME}-device") is None
        cluster.control.silent.clear()
        device = await joined(cluster)
        await cluster.eventually(lambda: owned(cluster, device))
        await cluster.delete(ACCOUNT)
        await cluster.becomes(lambda: config(cluster), {})


async def owned(world: World, device: str) -> bool:
    """Tell whether a Tailscale Service names *device* as its owner."""
    return any(device in json.dumps(each.annotations) for each in world.control.services.present.values())


async def test_a_new_device_of_the_operator_gets_the_old_name_after_the_deletion_of_the_old_device(
    cluster: World,
) -> None:
    async with serving(cluster):
        device = await joined(cluster)
        cluster.control.delete_device(cluster.control.devices[device])
        assert await joined(cluster, device)
        assert await cluster.device_names() == [f"{HOSTNAME}.tail1234.ts.net"]
        assert (await counts(cluster))["AuthKeyReissued"] == 1


async def test_a_new_device_of_the_operator_gets_the_old_name_after_the_loss_of_the_secret_of_the_old_device(
    cluster: World,
) -> None:
    async with serving(cluster):
        device = await joined(cluster)
        await cluster.api.delete(SECRET, Key(NAMESPACE, NAME))
        assert await joined(cluster, device)
        assert await cluster.device_names() == [f"{HOSTNAME}.tail1234.ts.net"]


@pytest.mark.parametrize("status", [500, LOST])
@pytest.mark.parametrize("write", ["create secrets", "create deployments", "patch secrets", "delete statefulsets"])
async def test_the_operator_makes_the_api_server_proxy_even_if_a_write_fails(
    cluster: World, write: str, status: int
) -> None:
    verb, plural = write.split()
    cluster.control.silent.add(HOSTNAME)
    async with serving(cluster, ProxyMode.OFF):
        if plural == "statefulsets":
            await cluster.apply(backend(), proxy_group("pg", type="ingress"), ingress(proxy_group="pg"))
            await cluster.eventually(lambda: cluster.find(STATEFULSET, f"{NAME}-device"))
        await cluster.settled()
    cluster.control.silent.clear()
    cluster.sim.faults.fail(Failure(status, 1, verb, plural))
    async with serving(cluster):
        await joined(cluster)
        assert cluster.sim.faults.to_json()["fail"] == []
        assert [each.tags for each in cluster.control.devices.values()].count(("tag:k8s-operator",)) == 1


@pytest.mark.parametrize("status", [500, LOST])
@pytest.mark.parametrize("write", ["delete deployments", "delete secrets"])
async def test_the_operator_removes_the_api_server_proxy_even_if_a_write_fails(
    cluster: World, write: str, status: int
) -> None:
    verb, plural = write.split()
    async with serving(cluster):
        await joined(cluster)
    cluster.sim.faults.fail(Failure(status, 1, verb, plural))
    async with serving(cluster, ProxyMode.OFF):
        await cluster.becomes(lambda: config(cluster), {})
        assert await cluster.find(DEPLOYMENT, PROXY) is None
        assert cluster.sim.faults.to_json()["fail"] == []


async def test_without_its_service_account_the_api_server_proxy_waits_and_an_event_says_what_to_apply(
    cluster: World,
) -> None:
    await cluster.delete(ACCOUNT)
    async with serving(cluster):
        await cluster.eventually(lambda: says(cluster, "apply the manifest charts/manifests/apiserver-proxy.yaml"))
        assert await cluster.find(DEPLOYMENT, PROXY) is None
        await cluster.apply(ACCOUNT)
        assert await joined(cluster)


async def test_the_operator_deletes_the_api_server_proxy_while_the_service_account_is_missing(
    cluster: World,
) -> None:
    async with serving(cluster):
        device = await joined(cluster)
        await cluster.delete(ACCOUNT)
        await cluster.eventually(lambda: cluster.gone({**ACCOUNT, "apiVersion": "apps/v1", "kind": "Deployment"}))
        await cluster.settled()
        assert await cluster.find(DEPLOYMENT, PROXY) is None
        assert await config(cluster) == {}
        await cluster.apply(ACCOUNT)
        assert await joined(cluster) == device


@pytest.mark.parametrize("resource", [DEPLOYMENT, SECRET], ids=["a Deployment", "a Secret"])
async def test_a_foreign_object_with_the_name_of_a_child_of_the_api_server_proxy_stays_and_an_event_names_it(
    cluster: World, resource: Resource
) -> None:
    theirs = whole_secret(CONFIG, {"password": "x"})
    if resource == DEPLOYMENT:
        theirs = {**DEPLOYED, "metadata": {"namespace": NAMESPACE, "name": PROXY}}
    await cluster.apply(theirs)
    before = meant(await cluster.look(theirs))
    async with serving(cluster):
        await cluster.eventually(lambda: says(cluster, "is in the way: it belongs to somebody else"))
        assert meant(await cluster.look(theirs)) == before
        await cluster.delete(theirs)
        assert await joined(cluster)


async def test_the_api_server_proxy_is_not_made_without_its_image_and_an_event_says_so(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    claim = ingress(proxy_group="pg")
    async with serving(cluster, operator_image=""):
        await cluster.apply(backend(), proxy_group("pg", type="ingress"), claim)
        await cluster.eventually(lambda: says(cluster, "OPERATOR_IMAGE is not set"))
        assert await cluster.find(DEPLOYMENT, PROXY) is None

        async def reason() -> str:
            return (await cluster.events(claim)).get("NoOperatorDevice", "")

        assert "OPERATOR_IMAGE is not set" in await cluster.eventually(reason)
        assert "can't be registered" not in caplog.text  # the line about the Event is enough


async def test_refused_tags_of_the_operators_device_are_reported_until_the_policy_allows_the_tags(
    cluster: World,
) -> None:
    permitted, cluster.control.policy_tags = cluster.control.policy_tags, set()
    async with serving(cluster):
        await cluster.eventually(lambda: says(cluster, '"tagOwners": {"tag:k8s-operator": []'))
        assert await cluster.find(SECRET, NAME) is None
        cluster.control.policy_tags = permitted
        assert await joined(cluster)


async def test_an_event_says_only_once_that_https_is_not_enabled_even_if_the_operator_starts_again(
    cluster: World,
) -> None:
    cluster.control.https = False
    for _ in range(2):
        async with serving(cluster):
            await joined(cluster)
            assert await counts(cluster) == {"HTTPSNotEnabled": 1}
            assert not await cluster.writes_when_left_alone()


async def test_an_event_says_which_device_holds_the_hostname_of_the_operators_device(cluster: World) -> None:
    cluster.peer(HOSTNAME)
    async with serving(cluster):
        device = cluster.control.devices[await joined(cluster)]
        assert device.name == f"{HOSTNAME}-1.tail1234.ts.net"
        await cluster.eventually(lambda: says(cluster, f"the name {HOSTNAME} is held by device"))


async def test_the_report_has_a_row_for_the_api_server_proxy_with_the_name_of_its_device(cluster: World) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with serving(cluster, status_address=address), aiohttp.ClientSession() as session:
        await joined(cluster)
        async with session.get(f"http://{address}/status") as response:
            objects = (await response.json())["objects"]
    found = [(each["name"], each["names"]) for each in objects if each["kind"] == DEPLOYMENT.kind]
    assert found == [(PROXY, [f"{HOSTNAME}.tail1234.ts.net"])]


async def test_only_a_change_of_the_operators_own_device_causes_a_reconcile_of_the_api_server_proxy() -> None:
    cache, missing = Shown(slim_secret(NAME, {"device_id": "nABC"})), cast("Any", None)
    chosen = settings(operator_secret=NAME, apiserver_proxy=ProxyMode.AUTH)
    watches = operatordevices(cache, missing, missing, missing, chosen, utc_now).watches
    for device, keys in (("nABC", [Key(OPERATOR_NAMESPACE, NAME)]), ("nXYZ", [])):
        assert [*watches[DEVICE](device_object(OWN, Device(device, "a.example.org")))] == keys


async def test_a_new_device_of_the_operator_takes_over_the_name_of_a_dead_device(cluster: World) -> None:
    dead = cluster.control.register(cluster.control.create_key(NewKey(("tag:k8s-operator",))).key, HOSTNAME)
    cluster.control.disconnect(dead.node_id, 3600)
    async with serving(cluster, take_over_names=True) as operator:
        assert await joined(cluster) != dead.node_id
        assert await cluster.device_names() == [dead.name]
        assert await counts(cluster) == {"NameTakenOver": 1}
        assert not await cluster.writes_when_left_alone()
        assert not any(".news" in path for path in remembered(operator, dead.node_id))


async def test_with_headscale_an_event_says_how_to_serve_plain_http_because_there_are_no_certificates() -> None:
    async with new_world(SimOptions(headscale=True)) as world:
        await world.apply(DEPLOYED, ACCOUNT)
        async with serving(world):
            await joined(world)
            await world.eventually(lambda: says(world, 'set apiServerProxyConfig.http of the chart to "true"'))
            assert await counts(world) == {"UnsupportedByControlServer": 1}
        async with serving(world, apiserver_proxy_http=True):
            await world.settled()
            assert '"80"' in (await config(world))["serve-config"]
            assert not await world.writes_when_left_alone()


async def test_an_operator_outside_of_a_deployment_logs_each_fault_of_its_api_server_proxy_once(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.delete(DEPLOYED, POD_OF_OPERATOR)
    async with serving(cluster, operator_image=""):
        await cluster.settled()
        await cluster.change(ACCOUNT, {"metadata": {"labels": {"a": "b"}}})
        await cluster.settled()
    assert caplog.text.count("OPERATOR_IMAGE is not set") == 1
