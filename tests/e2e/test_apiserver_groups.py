"""ProxyGroups of type kube-apiserver: people use the cluster's API by one name, which several proxies serve."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tsoperator.api.names import AUTH_PROXY_SERVICE_ACCOUNT, CONDITION_KUBE_APISERVER_CONFIGURED

from tests.e2e import apiproxy, product
from tests.e2e.apiproxy import CAPABILITY
from tests.e2e.apiusers import ApiUser
from tests.e2e.cluster import Cluster, Object, condition
from tests.e2e.groups import await_group, devices
from tests.e2e.hosting import certificates, dns_name
from tests.e2e.load import Load
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.recorders import RecorderDevice
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import proxy_group
from tests.support.manifests import recorder
from tests.support.rbac import Permission

ALICE = "alice@example.org"
MASTERS = "system:masters"
TAG = "tag:recorder"
RULE = {"impersonate": {"groups": [MASTERS]}, "recorder": [TAG], "enforceRecorder": True}
GRANT = {"src": [ALICE], "dst": ["tag:k8s"], "app": {CAPABILITY: [RULE]}}
S3 = {"endpoint": "s3.example.org", "bucket": "tapes"}
TAPES = recorder("tapes", enableUI=False, tags=[TAG], storage={"s3": S3})
RATE = 5.0  # requests a second
AFTERWARDS = 5.0  # seconds that the requests go on for


def kube_apiserver(name: str, mode: str) -> Object:
    return proxy_group(name, type="kube-apiserver", replicas=2, kubeAPIServer={"mode": mode})


KAPI, PLAIN = kube_apiserver("kapi", "auth"), kube_apiserver("plain", "noauth")

Say = Callable[[object], None]


@pytest.fixture(scope="module")
def made(cluster: Cluster, images: ProductImages, management: Management, outside: Peer) -> Iterator[datetime]:
    """A group of API server proxies for each mode, and a Recorder for Alice's sessions.

    The value is the moment when they were made.
    """
    values = {**product.CREDENTIALS, **product.image_values(images)}
    product.install(cluster.bed, product.CHART, {**values, "apiServerProxyConfig": {"allowImpersonation": "true"}})
    began = datetime.now(UTC)
    cluster.apply(TAPES, KAPI, PLAIN)
    cluster.device_proxy(TAPES)
    management.replace_grants(GRANT)
    for group in (KAPI, PLAIN):
        await_group(cluster, group, 2)
    yield began
    delete(cluster, KAPI, PLAIN, TAPES)
    management.replace_grants()
    product.deploy(cluster.bed, images)


def delete(cluster: Cluster, *objs: Object) -> None:
    """Delete cluster-scoped objects, and wait until they and their proxies are gone."""
    for obj in objs:
        cluster.delete(obj["kind"], obj["metadata"]["name"])
    for obj in objs:
        cluster.remove(obj)


@pytest.fixture(scope="module")
def home(bed: Bed, made: datetime) -> Iterator[Peer]:
    """Alice's device."""
    with bed.third_peer(ALICE) as device:
        yield device


@pytest.fixture(scope="module")
def alice(bed: Bed, home: Peer, acme_root: Path, tmp_path_factory: pytest.TempPathFactory) -> ApiUser:
    """Alice, a user with a kubeconfig for the group in auth mode."""
    user = ApiUser.at(bed.paths, home, acme_root, tmp_path_factory.mktemp("alice"))
    eventually(lambda: user.configure("kapi"), "the name of the group", 30)
    eventually(user.whoami, "an answer", 30)
    return user


def test_at_the_url_of_a_group_the_api_server_knows_a_user_by_the_login_name(cluster: Cluster, alice: ApiUser) -> None:
    status = cluster.look(KAPI)["status"]
    assert status["url"] == f"https://{dns_name('kapi')}"
    assert status["url"] in alice.configure("kapi")
    assert alice.whoami() == (ALICE, {MASTERS, "system:authenticated"})
    message = condition(cluster.look(KAPI), CONDITION_KUBE_APISERVER_CONFIGURED)["message"]
    assert message == "2/2 proxy backends ready and advertising"


def test_callers_of_a_group_in_noauth_mode_need_a_token_of_the_cluster(cluster: Cluster, alice: ApiUser) -> None:
    user = alice.elsewhere("plain")
    user.configure("plain")
    token = cluster.bed.kubectl("-n", "default", "create", "token", "default").strip()
    name, _ = eventually(lambda: user.whoami(f"--token={token}"), "an answer", 30)
    assert name == "system:serviceaccount:default:default"
    with pytest.raises(BedError, match="must be logged in"):
        user.run("get", "pods")


def test_sessions_through_a_group_of_api_server_proxies_are_recorded(
    alice: ApiUser, client: Object, outside: Peer
) -> None:
    tapes = RecorderDevice(outside, dns_name("tapes-0"))
    pod = client["metadata"]["name"]
    words = ["sh", "-c", "tty; seq 100"]
    shown = alice.run_on_terminal("-n", "default", "exec", "-it", pod, "--", *words)
    (file,) = eventually(tapes.files, "a recording", 20)
    cast = tapes.cast(file)
    assert "/dev/pts/" in shown
    assert cast.output.replace("\r\n", "\n") == shown
    assert (cast.header["srcNodeUser"], cast.header["kubernetes"]["PodName"]) == (ALICE, pod)


def test_no_new_connection_fails_while_a_group_of_api_server_proxies_is_restarted(
    cluster: Cluster, alice: ApiUser, say: Say
) -> None:
    old = {uid(pod) for pod in cluster.children(KAPI, "pods")}
    with Load.from_device(alice.device, "ok", [probe("kapi")], RATE) as requests:
        began = time.time()
        cluster.bed.kubectl("-n", NAMESPACE, "rollout", "restart", "statefulset/kapi")
        new = {uid(pod) for pod in await_group(cluster, KAPI, 2, 240)}
        took = time.time() - began
        go_on(requests)
    outcome = requests.since(began)
    say(f"rollout restart of 2 in {took:.0f} s: {outcome}")
    assert not old & new
    # A request breaks if it is open when another proxy takes over. Each proxy ends once.
    assert not [each for each in outcome.failed if "no connection" in each.error], str(outcome)
    assert len(outcome.failed) <= 2


def probe(label: str) -> str:
    """Return the URL of /readyz at the group named *label*, as a target of a `Load`.

    A request for this URL needs no authentication.
    """
    return f"https://{dns_name(label)}:443/readyz"


def go_on(requests: Load) -> None:
    """Let the requests continue for as long as a change can have effects."""
    until = time.time() + AFTERWARDS
    eventually(lambda: requests.seen()[-1].at > until, "requests for a while")


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def test_a_renamed_group_of_api_server_proxies_serves_its_new_name_before_it_gives_up_the_old_name(
    cluster: Cluster, alice: ApiUser, management: Management, say: Say
) -> None:
    with Load.from_device(alice.device, "ok", [probe("kapi")], RATE) as before:
        began = time.time()
        cluster.patch(KAPI, {"spec": {"kubeAPIServer": {"hostname": "renamed"}}})
        with Load.from_device(alice.device, "ok", [probe("renamed")], RATE) as after:
            eventually(lambda: management.service("svc:kapi") is None, "the end of the old name", 60)
            eventually(
                lambda: cluster.look(KAPI)["status"].get("url") == f"https://{dns_name('renamed')}", "its URL", 60
            )
            go_on(after)
    served = next(each.at for each in after.seen() if not each.error)
    say(f"the new name serves after {served - began:.1f} s; the old one: {before.since(began)}")
    assert not after.since(served).failed
    assert len(before.since(began, served).failed) <= 1  # the one that is open when another proxy takes over


UNUSED = {
    Permission(f"Role {NAMESPACE}/kapi", "update", "secrets"): "the image asks whether it may; it patches",
    **{
        Permission(f"Role {NAMESPACE}/{dns_name('renamed')}", verb, "secrets"): "the Go operator grants it, too"
        for verb in ("list", "update")
    },
}


def test_the_api_server_proxies_of_a_group_have_exactly_the_permissions_that_they_need(
    cluster: Cluster, alice: ApiUser, made: datetime
) -> None:
    seen, granted = apiproxy.conduct(cluster, made, AUTH_PROXY_SERVICE_ACCOUNT)
    assert not seen.denied
    assert granted - seen.used == {*UNUSED}


def test_a_deleted_group_of_api_server_proxies_leaves_nothing_in_the_tailnet(
    cluster: Cluster, made: datetime, management: Management
) -> None:
    delete(cluster, KAPI, PLAIN)
    assert not {each["name"] for each in management.services()} & {"svc:kapi", "svc:renamed", "svc:plain"}
    assert (devices(management, "kapi-"), devices(management, "plain-"), certificates(cluster)) == ([], [], [])
