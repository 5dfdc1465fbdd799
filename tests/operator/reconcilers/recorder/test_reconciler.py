"""Recorders on a cluster with a running operator: the tests check the state of the cluster and of the tailnet."""

from functools import partial

import pytest
from clustersim import objects
from clustersim.tailnet import Device, NewKey, Tailnet
from tsoperator.api.names import ANNOTATION_DIGEST, FINALIZER
from tsoperator.api.objects import (
    POD,
    RECORDER,
    ROLE,
    ROLEBINDING,
    SECRET,
    SERVICE,
    SERVICEACCOUNT,
    STATEFULSET,
    Key,
    Object,
    Resource,
    annotations,
    key_of,
    uid,
)
from tsoperator.kube.client import USER_AGENT
from tsoperator.runtime.ownership import Owner, owner_reference

from tests.operator.proxies import event
from tests.support.manifests import DOMAIN, credentials, proxy_group, recorder
from tests.support.objects import texts
from tests.support.operator import NAMESPACE, World, is_ready, meant, running_operator
from tests.support.othertailnet import NAME, OTHER_DOMAIN, other_tailnet

READY = "RecorderReady"
KEYS: Object = {"secret": {"name": "s3-keys"}}
S3: Object = {"storage": {"s3": {"endpoint": "s3.example.org", "bucket": "sessions", "credentials": KEYS}}}
S3_KEYS = credentials("s3-keys", AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
REC = recorder(**S3)


async def whole(world: World, obj: Object = REC, count: int = 1) -> list[Object]:
    """Wait until *obj* has *count* replicas that have joined, and the operator has settled.

    Return the devices in its status.
    """
    names = [f"{key_of(obj).name}-{ordinal}" for ordinal in range(count)]
    await world.becomes(lambda: shown(world, obj), names)
    await world.becomes(lambda: world.reason(obj, READY), "RecorderCreated")

    async def running() -> list[str]:
        pods = [key_of(each).name for each in await world.children(POD, obj) if is_ready(each)]
        return pods if len(await world.children(SECRET, obj)) == 2 * count else []

    await world.becomes(running, names)
    await world.settled()
    await world.becomes(lambda: shown(world, obj), names)  # a replica that lost its device has joined again
    devices: list[Object] = (await world.look(obj))["status"]["devices"]
    return devices


async def shown(world: World, obj: Object = REC) -> list[str]:
    return [each["hostname"] for each in ((await world.look(obj)).get("status") or {}).get("devices") or ()]


async def message(world: World, obj: Object = REC) -> str:
    condition = await world.condition(obj, READY)
    return condition.message if condition else ""


async def says(world: World, obj: Object, words: str) -> bool:
    return words in await message(world, obj)


async def left(world: World, obj: Object = REC) -> list[str]:
    """Return the leftovers of *obj*: children, devices, and the object itself."""
    kinds = (SERVICE, STATEFULSET, SECRET, POD, SERVICEACCOUNT, ROLE, ROLEBINDING)
    found = [f"{kind} {key_of(each)}" for kind in kinds for each in await world.children(kind, obj)]
    return [*found, *await world.device_names(), *([] if await world.gone(obj) else [str(key_of(obj))])]


async def test_the_status_of_a_recorder_shows_the_devices_and_their_urls(world: World) -> None:
    await world.apply(S3_KEYS, two := recorder(replicas=2, **S3))
    devices = await whole(world, two, 2)
    assert [each["url"] for each in devices] == [f"https://rec-{n}.{DOMAIN}" for n in (0, 1)]
    assert [each.addresses for each in by_name(world)] == [tuple(each["tailnetIPs"]) for each in devices]
    assert [each.tags for each in by_name(world)] == [("tag:k8s",)] * 2
    assert not await world.writes_when_left_alone()


def by_name(world: World) -> list[Device]:
    return sorted(world.control.devices.values(), key=lambda device: device.name)


SCALES = {"up and down": (0, 3, 1), "down and up": (3, 0, 2)}


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
async def test_scaling_and_deletion_of_a_recorder_leave_no_secret_and_no_device(
    world: World, scale: tuple[int, ...]
) -> None:
    await world.apply(S3_KEYS, recorder(replicas=scale[0], **S3))
    for count in scale:
        await world.change(REC, {"spec": {"replicas": count}})
        await whole(world, REC, count)
        await world.becomes(world.device_names, [f"rec-{n}.{DOMAIN}" for n in range(count)])
        assert not await world.writes_when_left_alone()
    await world.delete(REC)
    await world.becomes(lambda: left(world), [])


async def test_a_recorder_whose_pod_labels_change_gets_a_new_statefulset_and_keeps_its_devices(world: World) -> None:
    await world.apply(S3_KEYS, recorder(replicas=2, **S3))
    await whole(world, REC, 2)
    before, (old,) = {*world.control.devices}, await world.children(STATEFULSET, REC)
    await world.change(REC, {"spec": {"statefulSet": {"pod": {"labels": {"team": "a"}}}}})
    await world.eventually(lambda: is_renewed(world, uid(old)))
    await whole(world, REC, 2)
    assert {*world.control.devices} == before


async def is_renewed(world: World, before: str) -> bool:
    found = await world.children(STATEFULSET, REC)
    return [uid(each) != before and "team" in each["spec"]["selector"]["matchLabels"] for each in found] == [True]


@pytest.mark.simulated
async def test_the_statefulset_of_a_deleted_recorder_is_deleted_only_once(world: World) -> None:
    await world.apply(S3_KEYS, recorder(replicas=2, **S3))
    await whole(world, REC, 2)
    await world.delete(REC)
    await world.becomes(lambda: left(world), [])
    assert world.sim.writes[USER_AGENT, "delete", "statefulsets"] == 1


LOSSES = {"deleted": Tailnet.delete_device, "expired": Tailnet.expire_device}


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_recorders_replica_that_has_lost_its_device_joins_again_with_a_new_auth_key(
    world: World, loss: str
) -> None:
    await world.apply(S3_KEYS, recorder(replicas=2, **S3))
    before = await whole(world, REC, 2)
    lost, other = (each.node_id for each in by_name(world))
    LOSSES[loss](world.control, world.control.devices[lost])
    await world.eventually(lambda: is_replaced(world, lost))
    assert await event(world, REC, "AuthKeyReissued")
    assert [each["hostname"] for each in await whole(world, REC, 2)] == [each["hostname"] for each in before]
    assert other in world.control.devices
    assert len(world.control.keys) == 3
    assert not await world.writes_when_left_alone()


async def is_replaced(world: World, node_id: str) -> bool:
    return node_id not in world.control.devices and len(world.control.devices) == 2


async def test_a_recorders_replica_whose_auth_secret_is_lost_or_emptied_can_still_start(world: World) -> None:
    await world.apply(S3_KEYS, REC)
    await whole(world)
    (before,) = world.control.devices
    auth = await world.api.get(SECRET, Key(NAMESPACE, "rec-auth-0"))
    for harm in (world.delete(auth), world.change(auth, {"data": None})):
        await harm
        await world.eventually(lambda: has_key(world))
        (pod,) = await world.children(POD, REC)
        await world.delete(pod)
        await world.eventually(partial(is_another, world, uid(pod)))
        await whole(world)
    assert [*world.control.devices] == [before]


async def has_key(world: World) -> bool:
    found = await world.find(SECRET, "rec-auth-0")
    return found is not None and "authkey" in texts(found)


async def is_another(world: World, before: str) -> bool:
    return any(is_ready(each) and uid(each) != before for each in await world.children(POD, REC))


async def test_the_earlier_service_account_of_a_recorder_is_deleted_when_no_pod_needs_it(world: World) -> None:
    await world.apply(S3_KEYS, REC)
    await whole(world)
    account = {"name": "test-sa", "annotations": {"example.org/role": "x"}}
    await world.change(REC, {"spec": {"statefulSet": {"pod": {"serviceAccount": account}}}})
    await world.becomes(lambda: accounts(world), ["test-sa"])
    (found,) = await world.children(SERVICEACCOUNT, REC)
    assert annotations(found)["example.org/role"] == "x"
    await world.change(REC, {"spec": {"statefulSet": {"pod": {"serviceAccount": {"annotations": None}}}}})
    await world.becomes(lambda: account_annotations(world), {ANNOTATION_DIGEST})
    await whole(world)


async def accounts(world: World) -> list[str]:
    return [key_of(each).name for each in await world.children(SERVICEACCOUNT, REC)]


async def account_annotations(world: World) -> set[str]:
    (found,) = await world.children(SERVICEACCOUNT, REC)
    return {*annotations(found)}


def bare(resource: Resource, name: str, **content: object) -> Object:
    metadata = {"namespace": NAMESPACE, "name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}


async def test_a_recorder_does_not_change_the_children_and_devices_of_a_group_of_its_name(world: World) -> None:
    group, rec = proxy_group("rec"), recorder(**S3)
    await world.apply(S3_KEYS, group)
    await world.settled()
    before, devices = await world.children(STATEFULSET, group), {*world.control.devices}
    rec["metadata"]["finalizers"] = [FINALIZER]  # the Go operator puts it there first
    await world.apply(rec)
    await world.becomes(lambda: world.reason(rec, READY), "RecorderInvalid")
    await world.delete(rec)
    await world.eventually(lambda: world.gone(rec))
    await world.settled()
    assert [*map(meant, await world.children(STATEFULSET, group))] == [*map(meant, before)]
    assert {*world.control.devices} == devices


@pytest.mark.simulated
async def test_a_recorder_does_not_report_its_storage_secret_as_missing_while_only_the_cache_lacks_it(
    world: World,
) -> None:
    await world.settled()
    world.sim.faults.silence_watches(objects.SECRET)
    await world.apply(S3_KEYS, REC)
    await world.becomes(lambda: world.reason(REC, READY), "RecorderCreated")
    await world.settled()
    assert "NoCredentials" not in await world.events(REC)


async def test_a_recorder_waits_for_the_secret_with_the_credentials_for_its_storage(world: World) -> None:
    await world.apply(recorder(**S3, replicas=0))  # without Pods, whose changes would cause a reconcile
    await world.becomes(lambda: world.reason(REC, READY), "RecorderCreating")
    assert "Secret s3-keys isn't there" in await message(world)
    assert not await world.writes_when_left_alone()
    await world.apply(S3_KEYS)
    await whole(world, REC, 0)


async def test_a_tailnet_object_stays_while_its_tailnet_has_devices_of_a_recorder_that_left(
    world: World,
) -> None:
    async with other_tailnet(world) as other:
        rec = recorder(**S3, tailnet=NAME)
        await world.apply(S3_KEYS, other.secret(), other.tailnet(), rec)
        await whole(world, rec)
        await world.change(rec, {"spec": {"tailnet": None}})
        await world.delete(other.tailnet())
        await world.becomes(lambda: world.reason(other.tailnet(), "TailnetReady"), "TailnetInUse")
        await world.delete(rec)
        await world.eventually(lambda: world.gone(other.tailnet()))
        assert other.device_names() == []


@pytest.mark.simulated
async def test_a_recorder_that_is_deleted_after_its_tailnet_says_how_to_go_on(world: World) -> None:
    async with other_tailnet(world) as other:
        rec = recorder(**S3, tailnet=NAME)
        await world.apply(S3_KEYS, rec)
        await world.becomes(lambda: world.reason(rec, READY), "RecorderTailnetUnavailable")
        await world.apply(other.secret(), other.tailnet())
        (device,) = await whole(world, rec)
        assert device["url"] == f"https://rec-0.{OTHER_DOMAIN}"
        await world.delete(other.tailnet())
        await world.becomes(lambda: world.reason(other.tailnet(), "TailnetReady"), "TailnetInUse")
        world.sim.store.disown(objects.TAILNET, "", NAME)
        await world.settled()
        await world.delete(rec)
        await world.eventually(lambda: says(world, rec, "delete Secret tailscale/rec-0 by hand"))
        assert await world.reason(rec, READY) == "RecorderTailnetUnavailable"
        await world.apply(other.tailnet())
        await world.becomes(lambda: left(world, rec), [])
        assert other.device_names() == []


GO_LABELS = Owner("recorder", Key("", "rec")).labels
IMAGE = "tailscale/tsrecorder:v1.102.5"


def of_go(parent: Object, server: str, keys: list[str]) -> list[Object]:
    """Return the children that the Go operator makes for *parent*, whose replicas log in at *server* with *keys*."""

    def child(resource: Resource, name: str, **content: object) -> Object:
        made = bare(resource, name, **content)
        references = [owner_reference(RECORDER, "rec", uid(parent))]
        return {**made, "metadata": {**made["metadata"], "labels": GO_LABELS, "ownerReferences": references}}

    numbers = range(len(keys))
    names = [*(f"rec-{n}" for n in numbers), *(f"rec-auth-{n}" for n in numbers)]
    environment: list[Object] = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "POD_UID", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}},
        {"name": "TS_AUTHKEY_FILE", "value": "/etc/tailscaled/$(POD_NAME)/authkey"},
        {"name": "TS_STATE", "value": "kube:$(POD_NAME)"},
        {"name": "TSRECORDER_HOSTNAME", "value": "$(POD_NAME)"},
        {"name": "TSRECORDER_LOGIN_SERVER", "value": server},
        {"name": "TSRECORDER_DST", "value": "s3://s3.example.org"},
        {"name": "TSRECORDER_BUCKET", "value": "sessions"},
        {"name": "TSRECORDER_UI", "value": "true"},
    ]
    mounts = [{"name": f"authkey-{n}", "mountPath": f"/etc/tailscaled/rec-{n}", "readOnly": True} for n in numbers]
    item = {"key": "authkey", "path": "authkey"}
    volumes = [
        {"name": f"authkey-{n}", "secret": {"secretName": f"rec-auth-{n}", "items": [item], "defaultMode": 420}}
        for n in numbers
    ]
    container = {
        "name": "recorder",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/tsrecorder"],
        "env": environment,
        "envFrom": [{"secretRef": {"name": "s3-keys"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, *mounts],
    }
    pod = {
        "serviceAccountName": "rec",
        "restartPolicy": "Always",
        "containers": [container],
        "volumes": [{"name": "data", "emptyDir": {}}, *volumes],
    }
    template = {"metadata": {"name": "rec", "namespace": NAMESPACE, "labels": GO_LABELS}, "spec": pod}
    spec = {"replicas": len(keys), "selector": {"matchLabels": GO_LABELS}, "template": template}
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "patch", "update"], "resourceNames": names}
    events = {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "create", "patch"]}
    subject = {"kind": "ServiceAccount", "name": "rec", "namespace": NAMESPACE}
    role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": "rec"}
    return [
        *(child(SECRET, f"rec-auth-{n}", stringData={"authkey": key}) for n, key in enumerate(keys)),
        *(child(SECRET, f"rec-{n}") for n in numbers),
        child(SERVICEACCOUNT, "rec"),
        child(ROLE, "rec", rules=[secrets, events]),
        child(ROLEBINDING, "rec", roleRef=role, subjects=[subject]),
        child(STATEFULSET, "rec", spec=spec),
    ]


async def test_replicas_that_the_go_operator_made_stay_unchanged_until_their_recorder_is_deleted(
    cluster: World,
) -> None:
    rec = recorder(**S3, replicas=2)
    await cluster.apply(S3_KEYS, rec)
    await cluster.change(rec, {"metadata": {"finalizers": [FINALIZER]}})
    keys = [cluster.control.create_key(NewKey(("tag:k8s",))).key for _ in range(2)]
    await cluster.apply(*of_go(await cluster.look(rec), cluster.control_url, keys))
    await cluster.becomes(cluster.device_names, [f"rec-{n}.{DOMAIN}" for n in (0, 1)])
    await cluster.settled()
    before = await specs(cluster), await pods(cluster)
    async with running_operator(cluster, recorder_image=IMAGE):
        devices = await whole(cluster, rec, 2)
        assert [each["url"] for each in devices] == [f"https://rec-{n}.{DOMAIN}" for n in (0, 1)]
        assert not await cluster.writes_when_left_alone()
        assert (await specs(cluster), await pods(cluster)) == before
        assert len(cluster.control.keys) == 2
        await cluster.delete(rec)
        await cluster.becomes(lambda: left(cluster, rec), [])


async def specs(world: World) -> list[Object]:
    return [each["spec"] for each in await world.children(STATEFULSET, REC)]


async def pods(world: World) -> set[str]:
    return {uid(pod) for pod in await world.children(POD, REC)}


async def test_a_restart_of_the_operator_writes_nothing_for_a_recorder(cluster: World) -> None:
    async with running_operator(cluster):
        await cluster.apply(S3_KEYS, recorder(**S3, replicas=2))
        await whole(cluster, REC, 2)
        before = await cluster.look(REC)
    async with running_operator(cluster):
        assert not await cluster.writes_when_left_alone()
        assert await cluster.look(REC) == before
