import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from clustersim import kubelet
from clustersim.objects import POD, SECRET, Object
from clustersim.store import Store
from clustersim.tailnet import Tailnet

from tests.loadtest.clustersim.running import new_key, state, touch, until
from tests.support.cluster import running

NAME, AUTH = "rec-0", "rec-auth-0"


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def tailnet(store: Store) -> AsyncIterator[Tailnet]:
    """A tailnet, and a kubelet whose Pods can join it."""
    tailnet = Tailnet()
    async with running(kubelet.run(store, tailnet)):
        yield tailnet


def recorder_pod(more: Object | None = None, **variables: str) -> Object:
    """Return the Pod of a Recorder's replica, as the Go operator makes it.

    *more* are further fields of its container.
    """
    values = {
        "TS_AUTHKEY_FILE": "/etc/tailscaled/$(POD_NAME)/authkey",
        "TS_STATE": "kube:$(POD_NAME)",
        "TSRECORDER_HOSTNAME": "$(POD_NAME)",
        "TSRECORDER_LOGIN_SERVER": "https://controlplane.tailscale.com",
        "TSRECORDER_DST": "/data/recordings",
        **variables,
    }
    env: list[Object] = [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    env += [{"name": name, "value": value} for name, value in values.items()]
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "authkey-0", "mountPath": f"/etc/tailscaled/{NAME}"}]
    secret = {"secretName": AUTH, "items": [{"key": "authkey", "path": "authkey"}]}
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "authkey-0", "secret": secret}]
    container = {"name": "recorder", "image": "example.org/tsrecorder:1", "env": env, "volumeMounts": mounts}
    metadata = {"name": NAME, "namespace": "tailscale"}
    return {"metadata": metadata, "spec": {"containers": [container | (more or {})], "volumes": volumes}}


def put_secret(store: Store, name: str, **data: str) -> None:
    store.create(SECRET, {"metadata": {"name": name, "namespace": "tailscale"}, "stringData": data})


def give_key(store: Store, key: str) -> None:
    """Replace the auth key in the recorder's Secret, as the operator does."""
    store.merge(SECRET, "tailscale", AUTH, {"stringData": {"authkey": key}})
    touch(store, NAME)


def start(store: Store, key: str, pod: Object | None = None) -> None:
    put_secret(store, AUTH, authkey=key)
    put_secret(store, NAME)
    store.create(POD, pod or recorder_pod())


def login(store: Store) -> Any:
    """Return the part Config of the recorder's login profile, or an empty dict if the state Secret has no profile.

    The operator reads the same profile.
    """
    found = state(store, NAME)
    return json.loads(found.get(found.get("_current-profile", ""), "{}")).get("Config", {})


def container(store: Store) -> Any:
    statuses = store.get(POD, "tailscale", NAME).get("status", {}).get("containerStatuses")
    return statuses[0] if statuses else {}


async def test_a_simulated_recorder_joins_the_tailnet_and_stores_only_its_login_in_its_secret(
    store: Store, tailnet: Tailnet
) -> None:
    start(store, new_key(tailnet))
    await until(store, lambda: login(store))
    (device,) = tailnet.devices.values()
    assert login(store)["NodeID"] == device.node_id
    assert login(store)["UserProfile"] == {"LoginName": f"{NAME}.tail1234.ts.net"}
    keys = {key.partition("-")[0] if key.startswith("profile-") else key for key in state(store, NAME)}
    assert keys == {"_machinekey", "_profiles", "_current-profile", "profile"}
    store.delete(POD, "tailscale", NAME)
    store.create(POD, recorder_pod())
    await until(store, lambda: container(store).get("ready"))
    assert {*tailnet.devices.values()} == {device}


@pytest.mark.parametrize(("key", "asked"), [("used", "used"), ("", "no-authkey")])
async def test_a_simulated_recorder_with_a_refused_auth_key_asks_for_another_key(
    store: Store, tailnet: Tailnet, key: str, asked: str
) -> None:
    start(store, key)
    await until(store, lambda: "reissue_authkey" in state(store, NAME))
    assert (state(store, NAME)["reissue_authkey"], container(store)["ready"]) == (asked, True)
    give_key(store, new_key(tailnet))
    await until(store, lambda: login(store))
    assert ("reissue_authkey" in state(store, NAME), container(store)["restartCount"]) == (False, 1)


async def test_a_simulated_recorder_whose_device_was_deleted_joins_again_with_a_new_auth_key(
    store: Store, tailnet: Tailnet
) -> None:
    used = new_key(tailnet)
    start(store, used)
    await until(store, lambda: login(store))
    tailnet.delete_device(next(iter(tailnet.devices.values())))
    await until(store, lambda: state(store, NAME).get("reissue_authkey") == used)
    give_key(store, new_key(tailnet))
    await until(store, lambda: "reissue_authkey" not in state(store, NAME) and login(store))
    assert login(store)["NodeID"] in tailnet.devices


async def test_a_recorder_to_which_the_control_server_gives_no_answer_runs_without_a_device(
    store: Store, tailnet: Tailnet
) -> None:
    tailnet.silent = {NAME}
    start(store, new_key(tailnet))
    await until(store, lambda: container(store).get("ready"))
    assert (dict(tailnet.devices), state(store, NAME)) == ({}, {})
    tailnet.silent = set()
    await until(store, lambda: login(store))


FROM_SECRET = {"envFrom": [{"secretRef": {"name": "s3"}}]}


@pytest.mark.parametrize(
    ("pod", "lacks", "reason"),
    [
        (recorder_pod(), AUTH, "ContainerCreating"),
        (recorder_pod(), "authkey", "ContainerCreating"),
        (recorder_pod(), NAME, "CrashLoopBackOff"),
        (recorder_pod(FROM_SECRET), "", "CreateContainerConfigError"),
        (recorder_pod(TSRECORDER_DST="s3://s3.example.org"), "", "CrashLoopBackOff"),
        (recorder_pod(TSRECORDER_DST=""), "", "CrashLoopBackOff"),
        (recorder_pod({"volumeMounts": []}), "", "CrashLoopBackOff"),
        (recorder_pod({"image": "registry.invalid/tsrecorder:1"}), "", "ImagePullBackOff"),
    ],
)
async def test_the_container_status_of_a_recorder_that_cannot_start_has_the_reason(
    store: Store, tailnet: Tailnet, pod: Object, lacks: str, reason: str
) -> None:
    for name, data in {AUTH: {} if lacks == "authkey" else {"authkey": new_key(tailnet)}, NAME: {}}.items():
        if name != lacks:
            put_secret(store, name, **data)
    store.create(POD, pod)
    await until(store, lambda: container(store))
    assert (container(store)["state"].get("waiting", {}).get("reason"), dict(tailnet.devices)) == (reason, {})
