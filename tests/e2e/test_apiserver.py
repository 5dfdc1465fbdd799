"""The API server proxy: people use the cluster's API over the tailnet, and the API server knows who they are."""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.e2e import apiproxy
from tests.e2e.apiproxy import FQDN, HOST, grant
from tests.e2e.apiusers import COLUMNS, ROWS, SPDY, ApiUser, Running
from tests.e2e.cluster import Cluster, Object, identity, is_ready
from tests.e2e.containers import process_in, status_of
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.testbed import registry
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.control import DOMAIN
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PAGE, pod, web
from tests.support.rbac import Permission

ALICE = "alice@example.org"
TESTERS = "example:testers"
PATIENCE = 10.0  # seconds until kubectl works again after the Pod was deleted
PATIENCE_FOR_A_CONTAINER = 5.0  # seconds until it works again after a container was killed
MINUTE = 60.0  # seconds for which a watch must continue at least
SIZE = 50 * 2**20  # bytes to copy

TESTERS_MAY: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "example-testers"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": TESTERS}],
}
TTY_ONCE_SIZED = f'until [ "$(stty size)" = "{ROWS} {COLUMNS}" ]; do sleep 0.1; done; tty'
"""A shell script that waits until its terminal is as large as the person's, and then prints the terminal's name."""
STREAMS = pytest.mark.parametrize("environment", [{}, SPDY], ids=["WebSocket", "SPDY"])

Say = Callable[[object], None]
Environment = dict[str, str]
Standing = tuple[object, ...]


class Mode:
    """An upgrade of the release to a mode of the API server proxy.

    It began at the moment *began*. By the moment *there*, a Pod in this mode was ready.
    """

    def __init__(self, cluster: Cluster, images: ProductImages, mode: str, http: str = "false") -> None:
        self.began = datetime.now(UTC)
        apiproxy.switch(cluster, images, mode, http)
        self.there = datetime.now(UTC)


@pytest.fixture(scope="module")
def proxied(cluster: Cluster, images: ProductImages, management: Management) -> Iterator[Mode]:
    """The API server proxy in auth mode, with plain HTTP on port 80, and a grant that makes Alice a tester.

    At the end the proxy and its device are deleted.
    """
    management.replace_grants(grant(ALICE, TESTERS))
    cluster.apply(TESTERS_MAY)
    yield Mode(cluster, images, "true", http="true")
    apiproxy.remove(cluster, images, management)
    cluster.delete("clusterrolebinding", TESTERS_MAY["metadata"]["name"])


@pytest.fixture(scope="module")
def home(bed: Bed, proxied: Mode) -> Iterator[Peer]:
    """Alice's device."""
    with bed.third_peer(ALICE) as device:
        yield device


@pytest.fixture(scope="module")
def alice(bed: Bed, home: Peer, acme_root: Path, tmp_path_factory: pytest.TempPathFactory) -> ApiUser:
    """Alice, a user with a kubeconfig for the API server proxy. The proxy has its certificate already."""
    user = ApiUser.at(bed.paths, home, acme_root, tmp_path_factory.mktemp("alice"))
    assert FQDN in user.configure(HOST)
    eventually(user.whoami, "an answer of the API server", 60)
    return user


@pytest.fixture(scope="module")
def original(alice: ApiUser, management: Management) -> Standing:
    """The value of `standing` at the start of these tests."""
    return standing(alice, management)


def standing(user: ApiUser, management: Management) -> Standing:
    """Return the node ID, the addresses and the serial number of the certificate of the proxy's device."""
    return (*apiproxy.identity(management), user.certificate(FQDN))


@pytest.fixture(scope="module")
def machine(
    bed: Bed, alice: ApiUser, outside: Peer, acme_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> ApiUser:
    """A user on a tagged device that no grant mentions."""
    user = ApiUser.at(bed.paths, outside, acme_root, tmp_path_factory.mktemp("machine"))
    user.configure(HOST)
    return user


@pytest.fixture(scope="module")
def space(cluster: Cluster, shared_namespace: str) -> str:
    """A namespace with the Pod ``web``."""
    cluster.apply(*web(shared_namespace, "web"))
    cluster.bed.kubectl("-n", shared_namespace, "wait", "pod/web", "--for=condition=Ready", "--timeout=60s", timeout=70)
    return shared_namespace


@pytest.fixture(scope="module")
def watch(alice: ApiUser, space: str) -> Iterator[tuple[Running, float]]:
    """A watch by Alice that continues while the first tests of this module run, and the moment when it began."""
    began = time.monotonic()
    with alice.running("watch", "-n", space, "get", "configmaps", "--watch", "--output=name") as running:
        eventually(lambda: "kube-root-ca.crt" in running.output, "the first object of the watch", 20)
        yield running, began


def configmap(namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}


def test_the_api_server_knows_a_user_by_the_login_name_and_the_granted_groups(alice: ApiUser) -> None:
    assert alice.whoami() == (ALICE, {TESTERS, "system:authenticated"})


def test_a_user_of_the_api_server_proxy_cannot_impersonate_another_user(alice: ApiUser) -> None:
    assert alice.whoami("--as=system:admin", "--as-group=system:masters")[0] == ALICE


@pytest.mark.usefixtures("watch", "original")
def test_a_user_applies_an_object_through_the_api_server_proxy_and_reads_it(alice: ApiUser, space: str) -> None:
    made = {**configmap(space, "applied"), "data": {"key": "value"}}
    alice.apply(made)
    assert alice.get("-n", space, "get", "configmap", "applied")["data"] == made["data"]


def test_a_user_follows_the_log_of_a_pod_to_its_end(alice: ApiUser, space: str) -> None:
    count = pod(space, "counter", {"command": ["sh", "-c", "for i in $(seq 20); do echo $i; sleep 0.1; done"]})
    count["spec"]["restartPolicy"] = "Never"
    alice.apply(count)
    alice.run("-n", space, "wait", "pod/counter", "--for=jsonpath={.status.phase}=Running", "--timeout=30s")
    assert alice.run("-n", space, "logs", "--follow", "counter").split() == [str(number + 1) for number in range(20)]


@STREAMS
def test_a_user_copies_a_file_into_a_pod_and_back(
    alice: ApiUser, space: str, environment: Environment, say: Say
) -> None:
    there, back = alice.folder / "there", alice.folder / "back"
    there.write_bytes(os.urandom(SIZE))
    user = alice.by(environment)
    began = time.monotonic()
    user.run("-n", space, "cp", there, "web:/tmp/copied")
    middle = time.monotonic()
    user.run("-n", space, "cp", "web:/tmp/copied", back)
    end = time.monotonic()
    assert digest(back) == digest(there)
    assert user.run("-n", space, "exec", "web", "--", "sha256sum", "/tmp/copied").split()[0] == digest(there)
    say(f"50 MB there in {middle - began:.1f} s, back in {end - middle:.1f} s")


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@STREAMS
def test_a_command_in_a_pod_gets_input_and_a_terminal(alice: ApiUser, space: str, environment: Environment) -> None:
    user = alice.by(environment)
    assert user.run("-n", space, "exec", "-i", "web", "--", "cat", stdin="some words") == "some words"
    assert "/dev/pts/" in user.run_on_terminal("-n", space, "exec", "-it", "web", "--", "sh", "-c", TTY_ONCE_SIZED)


@STREAMS
def test_a_user_attaches_to_a_program_in_a_pod(alice: ApiUser, space: str, environment: Environment) -> None:
    name = f"listener-{len(environment)}"
    made = pod(space, name, {"command": ["cat"], "stdin": True, "stdinOnce": True})
    made["spec"]["restartPolicy"] = "Never"
    alice.apply(made)
    alice.run("-n", space, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=30s")
    assert alice.by(environment).run("-n", space, "attach", "-i", name, stdin="some words") == "some words"


@STREAMS
def test_a_user_forwards_a_port_of_a_pod(alice: ApiUser, space: str, environment: Environment) -> None:
    forward = alice.by(environment).running("forward", "-n", space, "port-forward", "pod/web", ":8080")
    with forward as running:
        begun = eventually(lambda: re.search(r"127\.0\.0\.1:(\d+) -> 8080", running.output), "a local port", 20)
        assert begun
        page = alice.device.machine.run(["curl", "-sS", "--max-time", "5", f"http://127.0.0.1:{begun[1]}/"])
    assert page.strip() == PAGE


@STREAMS
def test_a_user_debugs_a_pod(alice: ApiUser, space: str, environment: Environment) -> None:
    words = ["-n", space, "debug", "-it", "web", "--profile=general", f"--image={registry.BASE}"]
    assert "/dev/pts/" in alice.by(environment).run_on_terminal(*words, "--", "sh", "-c", TTY_ONCE_SIZED)


def test_in_a_tailnet_without_certificates_users_reach_the_api_server_proxy_by_plain_http(
    alice: ApiUser, management: Management
) -> None:
    plain = alice.elsewhere("plain")
    assert f"http://{FQDN}" in plain.configure("--http", HOST)
    management.set_https(False)
    try:
        assert plain.whoami() == (ALICE, {TESTERS, "system:authenticated"})
        eventually(lambda: not answers(alice), "the end of HTTPS", 20)
    finally:
        management.set_https(True)
    eventually(lambda: answers(alice), "HTTPS again", 20)


def answers(user: ApiUser, seconds: float = 3) -> bool:
    """Tell whether the API server answers a user within *seconds*."""
    try:
        return bool(user.run("get", "--raw=/version", f"--request-timeout={seconds:.0f}s"))
    except BedError:
        return False


def test_the_api_server_proxy_does_not_answer_a_request_with_a_forged_proxy_protocol_header(
    cluster: Cluster, alice: ApiUser, outside: Peer, management: Management
) -> None:
    (address, *_) = apiproxy.device(management)["addresses"]
    header = apiproxy.forged_header(outside.address)
    ports = {*apiproxy.listening(cluster, apiproxy.ready_pod(cluster)), 443, 80, 8443, 8080, 9002}
    assert {9002, 8443, 8080} <= ports
    request = header + f"GET /version HTTP/1.1\r\nHost: {FQDN}\r\n\r\n".encode()
    answered = {port: alice.device.exchange(address, port, request) for port in ports}
    assert {port for port, answer in answered.items() if answer} <= {443, 80, alice.device.peer_api(FQDN)}
    assert not any(b"gitVersion" in answer for answer in answered.values())


def test_a_watch_through_the_api_server_proxy_continues_if_both_pods_of_the_operator_are_killed(
    cluster: Cluster, alice: ApiUser, space: str, watch: tuple[Running, float]
) -> None:
    running, began = watch
    old = {each["metadata"]["uid"] for each in cluster.listed("pods", NAMESPACE, {"app": "operator"})}
    cluster.bed.kubectl("-n", NAMESPACE, "delete", "pods", "--selector=app=operator", "--force", "--grace-period=0")

    def replaced() -> bool:
        found = cluster.listed("pods", NAMESPACE, {"app": "operator"})
        new = {each["metadata"]["uid"] for each in found if is_ready(each)}
        return len(new) == 2 and not new & old

    eventually(replaced, "two other Pods of the operator", 60)
    eventually(lambda: time.monotonic() > began + MINUTE, "the end of the minute", MINUTE)
    cluster.apply(configmap(space, "late"))
    eventually(lambda: "configmap/late" in running.output, "the new object in the watch", 5)
    running.process.end(5)


# Alice uses her device all the time. The device keeps its WireGuard session with a tailscaled that has ended, until the
# next tailscaled contacts the device.


def use(user: ApiUser) -> None:
    """Send some requests from a user's device, so that the device has an active connection to the proxy."""
    for _ in range(10):
        eventually(lambda: answers(user), "an answer", 30)
        time.sleep(0.2)


def test_kubectl_works_again_soon_after_the_pod_of_the_api_server_proxy_was_deleted(
    cluster: Cluster, original: Standing, alice: ApiUser, management: Management, say: Say
) -> None:
    old = apiproxy.ready_pod(cluster)
    use(alice)
    began = time.monotonic()
    cluster.delete("pod", old["metadata"]["name"], NAMESPACE)

    def replaced() -> bool:
        return all(each["metadata"]["uid"] != old["metadata"]["uid"] for each in apiproxy.pods(cluster))

    eventually(lambda: answers(alice, 1) and replaced(), "an answer by another Pod", 30)
    took = time.monotonic() - began
    say(f"the Pod deleted: kubectl works after {took:.1f} s")
    assert took <= PATIENCE
    assert standing(alice, management) == original


@pytest.mark.parametrize(("container", "program"), [("tailscale", "tailscaled"), ("apiproxy", "tsoperator.apiproxy")])
def test_kubectl_works_again_soon_after_a_container_of_the_api_server_proxy_was_killed(
    cluster: Cluster,
    original: Standing,
    alice: ApiUser,
    management: Management,
    container: str,
    program: str,
    say: Say,
) -> None:
    old = apiproxy.ready_pod(cluster)
    use(alice)
    began = time.monotonic()
    process_in(old, container, program).send(SIGKILL)
    eventually(lambda: answers(alice, 1) and is_back(cluster, old, container), "an answer by another container", 20)
    took = time.monotonic() - began
    say(f"{container} killed: kubectl works after {took:.1f} s")
    assert took <= PATIENCE_FOR_A_CONTAINER
    assert standing(alice, management) == original


def is_back(cluster: Cluster, before: Object, container: str) -> bool:
    """Tell whether *container* has restarted since the Pod was as in *before*, and the device serves HTTPS again."""
    status = status_of(cluster.look(before), container)
    restarted = status["restartCount"] > status_of(before, container)["restartCount"] and "running" in status["state"]
    return restarted and apiproxy.serves(cluster)


def test_the_api_server_knows_a_tagged_device_by_its_name_and_its_tags(machine: ApiUser) -> None:
    assert machine.whoami() == (machine.device.fqdn, {"tag:peer", "system:authenticated"})


def test_the_api_server_forbids_a_request_of_a_caller_without_a_grant_and_names_the_caller(machine: ApiUser) -> None:
    with pytest.raises(BedError, match=f'Forbidden.*User "{machine.device.fqdn}" cannot list'):
        machine.run("get", "secrets", "-n", NAMESPACE)


def check_rights(cluster: Cluster, mode: Mode) -> None:
    """Check that the API server denied nothing to the proxy in *mode*, and that the proxy needs its permissions.

    It must have used all of them but those in `UNUSED`.
    """
    seen, granted = apiproxy.conduct(cluster, mode.began)
    assert not (denied := [each for each in seen.denied if each.when > mode.there]), denied
    assert granted - seen.used == {each for each in granted if each in UNUSED}


UNUSED = {
    Permission(f"Role {NAMESPACE}/{apiproxy.NAME}", "update", "secrets"): (
        "the image asks whether it may, and doesn't start if not; it patches"
    ),
}


def test_in_auth_mode_the_api_server_proxy_has_exactly_the_permissions_that_it_needs(
    cluster: Cluster, proxied: Mode
) -> None:
    check_rights(cluster, proxied)


@pytest.fixture(scope="module")
def noauth(cluster: Cluster, images: ProductImages, proxied: Mode, alice: ApiUser) -> Mode:
    """The API server proxy in noauth mode, without plain HTTP on port 80."""
    return Mode(cluster, images, "noauth")


def test_in_noauth_mode_callers_of_the_api_server_proxy_need_a_token_of_the_cluster(
    cluster: Cluster, noauth: Mode, alice: ApiUser, space: str
) -> None:
    token = cluster.bed.kubectl("-n", space, "create", "token", "default").strip()
    name, _ = eventually(lambda: alice.whoami(f"--token={token}"), "an answer", 30)
    assert name == f"system:serviceaccount:{space}:default"
    with pytest.raises(BedError, match="Unauthorized"):
        alice.run("get", "pods")


def test_if_the_tailnet_has_no_certificates_an_event_says_which_value_of_the_chart_to_set(
    cluster: Cluster, noauth: Mode, management: Management
) -> None:
    management.set_https(False)
    try:
        words = eventually(lambda: [each for each in apiproxy.told(cluster) if "HTTPS" in each], "an Event", 60)
    finally:
        management.set_https(True)
    assert any("apiServerProxyConfig.http" in each for each in words), words


def test_in_noauth_mode_the_api_server_proxy_has_exactly_the_permissions_that_it_needs(
    cluster: Cluster, noauth: Mode
) -> None:
    check_rights(cluster, noauth)


@pytest.mark.full
def test_another_hostname_in_the_values_renames_the_device_of_the_api_server_proxy_without_a_restart(
    cluster: Cluster, images: ProductImages, noauth: Mode, alice: ApiUser, management: Management, say: Say
) -> None:
    before, (node_id, _) = apiproxy.ready_pod(cluster), apiproxy.identity(management)
    began = time.monotonic()
    apiproxy.upgrade(cluster, images, "noauth", hostname="renamed")
    renamed = alice.elsewhere("renamed")
    try:
        eventually(lambda: renamed.configure("renamed"), "the device under its new name", 60)
        name = f"renamed.{DOMAIN}"
        eventually(lambda: renamed.certificate(name), f"a certificate for {name}", 30)
        say(f"renamed after {time.monotonic() - began:.1f} s")
        assert (management.device("renamed") or {})["nodeId"] == node_id
        assert identity(cluster.look(before)) == identity(before)
    finally:
        apiproxy.upgrade(cluster, images, "noauth")
        eventually(lambda: apiproxy.identity(management)[0] == node_id, "the old name", 60)
