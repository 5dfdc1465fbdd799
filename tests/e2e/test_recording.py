"""Recordings of sessions and requests through the API server proxy.

If recording is enforced, nothing goes unrecorded.
"""

import base64
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Any, NamedTuple

import pytest
from operatorbench.audit import entries

from tests.e2e import apiproxy
from tests.e2e.apiproxy import FQDN, HOST, grant
from tests.e2e.apiusers import COLUMNS, ROWS, SPDY, ApiUser, Running
from tests.e2e.cluster import Cluster, Object
from tests.e2e.containers import process_of
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.recorders import Cast, RecorderDevice
from tests.e2e.testbed import registry
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.control import DOMAIN
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.network import FIRST_NODE
from tests.e2e.testbed.peer import Peer
from tests.e2e.testbed.processes import Process
from tests.e2e.waiting import eventually
from tests.e2e.workloads import pod, web
from tests.support.manifests import recorder

ALICE = "alice@example.org"
MASTERS = "system:masters"
MACHINES = "tag:peer"
PATIENCE = 35.0  # seconds until a session ends that isn't recorded any more

TAG = "tag:recorder"
S3 = {"endpoint": "s3.example.org", "bucket": "archive"}
ARCHIVE = recorder("archive", enableUI=False, replicas=2, tags=[TAG], storage={"s3": S3})

STREAMS = pytest.mark.parametrize("environment", [{}, SPDY], ids=["WebSocket", "SPDY"])
SNOW = 100_000  # lines of characters with several bytes
SNOWING = f"cat; yes \"$(printf '\\303\\244\\342\\230\\203')\" | head -n {SNOW}; sleep 0.5; echo a problem >&2"
COLOURS = (
    f'until [ "$(stty size)" = "{ROWS + 1} {COLUMNS + 1}" ]; do sleep 0.1; done; '
    "tty; for i in $(seq 300); do printf '\\033[3%dm%d\\n' $((i % 8)) $i; done"
)
"""A shell script that waits until its terminal has grown, and then prints the terminal's name and coloured lines."""
TICKING = "for i in $(seq 1000); do echo tick $i; sleep 0.2; done"

Environment = dict[str, str]
Say = Callable[[object], None]


@dataclass(frozen=True, slots=True)
class Ground:
    """The API server proxy with two recorders and two callers.

    Alice's sessions must be recorded. The sessions of the machine, a tagged device, continue without a recorder.
    """

    cluster: Cluster
    management: Management
    recorders: tuple[RecorderDevice, RecorderDevice]
    alice: ApiUser
    machine: ApiUser

    def record(self, *recorders: RecorderDevice, **rule: Any) -> None:
        """Set the grants so that these *recorders*, by default both, record the sessions.

        *rule* has more fields for the grants.
        """
        where = {"recorderAddrs": [each.address for each in recorders]} if recorders else {"recorder": [TAG]}
        self.replace_rules(alice={**where, "enforceRecorder": True, **rule}, machine={**where, **rule})

    def replace_rules(self, alice: Object, machine: Object) -> None:
        """Replace the grants' rules for both callers, and wait until the proxy has them."""
        self.management.replace_grants(grant(ALICE, MASTERS, **alice), grant(MACHINES, MASTERS, **machine))

        def known() -> bool:
            wanted = ((self.alice, alice), (self.machine, machine))
            return all(
                any(rule.items() <= each.items() for each in apiproxy.granted(self.cluster, user.device))
                for user, rule in wanted
            )

        eventually(known, "the new grants at the proxy", 20)

    def files(self, end: str = ".cast") -> dict[str, RecorderDevice]:
        """Return the recorder of each recording, by the name of its file."""
        return {file: each for each in self.recorders for file in each.files(end)}

    @contextmanager
    def recorded(self) -> Iterator[list[Cast]]:
        """Yield a list that gets the recording of the only session in the block, once the recording is complete."""
        before, casts = self.files(), list[Cast]()
        yield casts
        files = eventually(lambda: self.files().keys() - before.keys(), "a recording", 10)
        casts += [self.files()[file].cast(file) for file in files]


@pytest.fixture(scope="module")
def proxied(cluster: Cluster, images: ProductImages, management: Management) -> Iterator[None]:
    """The proxy in auth mode, and two recorders. Afterwards they are gone."""
    management.replace_grants(grant(ALICE, MASTERS), grant(MACHINES, MASTERS))
    cluster.apply(ARCHIVE)
    apiproxy.switch(cluster, images, "true")
    yield
    cluster.delete("recorder", ARCHIVE["metadata"]["name"])
    apiproxy.remove(cluster, images, management)
    cluster.remove(ARCHIVE)


@pytest.fixture(scope="module")
def home(bed: Bed, proxied: None) -> Iterator[Peer]:
    """Alice's device."""
    with bed.third_peer(ALICE) as device:
        yield device


@pytest.fixture(scope="module")
def ground(
    cluster: Cluster,
    management: Management,
    home: Peer,
    outside: Peer,
    acme_root: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Ground:
    alice, machine = (
        configured(ApiUser.at(cluster.bed.paths, device, acme_root, tmp_path_factory.mktemp(device.name)))
        for device in (home, outside)
    )
    first, second = (RecorderDevice(outside, f"archive-{number}.{DOMAIN}") for number in range(2))
    for each in (first, second):
        eventually(partial(is_empty, each), f"{each.name}", 60)
    return Ground(cluster, management, (first, second), alice, machine)


def configured(user: ApiUser) -> ApiUser:
    """Return a person with a kubeconfig, to whom the API server answers."""
    eventually(lambda: user.configure(HOST), "the proxy's device", 60)
    eventually(user.whoami, "an answer of the API server", 60)
    return user


def is_empty(device: RecorderDevice) -> bool:
    """Tell whether a recorder has no recordings. Raises BedError if the recorder doesn't answer."""
    return not device.files()


@pytest.fixture(scope="module")
def space(cluster: Cluster, shared_namespace: str) -> str:
    """A namespace with the Pod ``web``."""
    cluster.apply(*web(shared_namespace, "web"))
    cluster.bed.kubectl("-n", shared_namespace, "wait", "pod/web", "--for=condition=Ready", "--timeout=60s", timeout=70)
    return shared_namespace


def request(user: ApiUser, method: str, path: str, *words: str) -> str:
    """Send a request to the proxy, and return the answer and the status in one line."""
    curl: list[Word] = ["curl", "-sS", "--http1.1", "--path-as-is", "--max-time", "20", "--cacert", user.root]
    asked = ["--request", method, "--write-out", " %{http_code}", *words, f"https://{FQDN}{path}"]
    return " ".join(user.device.machine.run([*curl, *asked]).split())


def source(device: Peer) -> Object:
    """Return the fields by which a recording says that its session came from *device*."""
    node = device.status()["Self"]
    return {"srcNode": device.fqdn, "srcNodeID": node["ID"]}


@STREAMS
def test_the_recording_of_a_kubectl_exec_session_has_the_output_that_the_user_saw(
    ground: Ground, space: str, environment: Environment
) -> None:
    ground.record()
    with ground.recorded() as found:
        words = ["-n", space, "exec", "-i", "web", "--", "sh", "-c", SNOWING]
        seen = ground.alice.by(environment).run(*words, stdin="some words\n")
    (cast,) = found
    assert seen == "some words\n" + "ä☃\n" * SNOW
    assert cast.output == seen + "a problem\n"
    user = ground.alice.device.status()["Self"]["UserID"]
    expected = {**source(ground.alice.device), "srcNodeUser": ALICE, "srcNodeUserID": user, "width": 0, "height": 0}
    assert expected.items() <= cast.header.items()
    assert cast.header["command"] == f"sh -c {SNOWING}"
    assert cast.header["kubernetes"] == {
        "PodName": "web",
        "Namespace": space,
        "Container": "web",
        "SessionType": "exec",
    }


@STREAMS
def test_the_recording_of_a_session_with_a_terminal_has_its_output_and_its_sizes(
    ground: Ground, space: str, environment: Environment
) -> None:
    ground.record()
    with ground.recorded() as found:
        user = ground.machine.by(environment)
        seen = user.run_on_terminal("-n", space, "exec", "-it", "web", "--", "sh", "-c", COLOURS, grows=True)
    (cast,) = found
    assert "/dev/pts/" in seen
    assert cast.output.replace("\r\n", "\n") == seen
    assert (cast.sizes[0], cast.sizes[-1]) == (f"{COLUMNS}x{ROWS}", f"{COLUMNS + 1}x{ROWS + 1}")
    assert {**source(user.device), "srcNodeTags": [MACHINES]}.items() <= cast.header.items()


@STREAMS
def test_a_session_that_attaches_to_a_running_program_is_recorded(
    ground: Ground, space: str, environment: Environment
) -> None:
    ground.record()
    name = f"listener-{len(environment)}"
    made = pod(space, name, {"command": ["cat"], "stdin": True, "stdinOnce": True})
    made["spec"]["restartPolicy"] = "Never"
    ground.alice.apply(made)
    ground.alice.run("-n", space, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=30s")
    with ground.recorded() as found:
        said = ground.alice.by(environment).run("-n", space, "attach", "-i", name, stdin="some words")
    assert [(cast.output, cast.header["kubernetes"]["SessionType"]) for cast in found] == [(said, "attach")]


def test_a_recorder_with_the_first_version_of_the_protocol_stores_sessions(ground: Ground, space: str) -> None:
    first, _ = ground.recorders
    ground.record(first)
    with first.faulty(first=True), ground.recorded() as found:
        assert ground.alice.run("-n", space, "exec", "web", "--", "echo", "hello") == "hello\n"
    assert [cast.output for cast in found] == ["hello\n"]
    assert first.files("-v1.cast")


UPGRADE = (
    "--no-buffer",
    "--output",
    "/dev/null",
    "--header",
    "Connection: Upgrade",
    "--header",
    "Upgrade: websocket",
    "--header",
    "Sec-WebSocket-Version: 13",
    "--header",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "--header",
    "Sec-WebSocket-Protocol: v5.channel.k8s.io",
)


@pytest.mark.parametrize("end", ["exec/", "exe%63"])
def test_a_session_is_recorded_even_if_its_path_is_spelled_in_another_way(ground: Ground, space: str, end: str) -> None:
    ground.record()
    path = f"/api/v1/namespaces/{space}/pods/web/{end}?command=echo&command=hello&stdout=true"
    with ground.recorded() as found:
        assert request(ground.alice, "GET", path, *UPGRADE) == "101"
    assert [(cast.output, cast.header["command"]) for cast in found] == [("hello\n", "echo hello")]


class Shape(NamedTuple):
    method: str
    path: str
    body: str = ""


SHAPES = [
    Shape("GET", "/api/v1/namespaces/SPACE/pods/foo.bar"),
    Shape("GET", "/api/v1/namespaces/SPACE/pods/foo-bar"),
    Shape("GET", "/api/v1/pods?watch=true&timeoutSeconds=1"),
    Shape("GET", "/api/v1/pods?labelSelector=app%3Dfoo"),
    Shape("GET", "/api/v1/pods?fieldSelector=status.phase%3DPending"),
    Shape("GET", "/api/v1/foo"),
    Shape("GET", "/api/v1/namespaces/SPACE/pods"),
    Shape("POST", "/api/v1/namespaces/SPACE/pods?dryRun=All", '{"foo":"bar"}'),
    Shape("GET", "/apis/tailscale.com/v1alpha1/recorders"),
    Shape("GET", "/api/v1/namespaces/SPACE/pods/foo/proxy"),
    Shape("GET", "/api/v1/namespaces/SPACE/services/foo:8080/proxy-subpath/more/segments"),
    Shape("DELETE", "/api/v1/namespaces/SPACE/configmaps?labelSelector=app%3Dfoo"),
    Shape("GET", "/healthz"),
]


KEYS = {
    "Resource": "resource",
    "Subresource": "subresource",
    "Namespace": "namespace",
    "Name": "name",
    "APIGroup": "apiGroup",
    "APIVersion": "apiVersion",
}
"""The names of fields in an event, and the names of the same fields in the audit log."""


def seen_by_api_server(cluster: Cluster, path: str) -> Object:
    """Wait for an entry about *path* in the API server's audit log, and return the newest one."""

    def last() -> Object | None:
        found = [each for each in entries(cluster.bed.plane.audit_log) if each["requestURI"] == path]
        return found[-1] if found else None

    entry = eventually(last, f"{path} in the audit log", 10)
    assert entry
    return entry


@pytest.fixture(scope="module")
def events(ground: Ground, space: str) -> list[Object]:
    """The events that a recorder stored about requests of all `SHAPES` by Alice, and about one by the machine."""
    first, _ = ground.recorders
    ground.record(first, enableEvents=True)
    first.forget()
    for shape in SHAPES:
        data = ["--json", shape.body] if shape.body else []
        request(ground.alice, shape.method, shape.path.replace("SPACE", space), *data)
    request(ground.machine, "GET", "/api/v1/pods")
    return first.events()


def test_the_recorder_gets_a_description_of_each_request_like_that_in_the_audit_log_of_the_api_server(
    ground: Ground, cluster: Cluster, space: str, events: list[Object]
) -> None:
    paths = [shape.path.replace("SPACE", space) for shape in SHAPES]
    by_alice, by_machine = events[:-1], events[-1]
    assert [event["request"]["path"] for event in by_alice] == paths
    assert [event["request"]["method"] for event in by_alice] == [shape.method for shape in SHAPES]
    assert [base64.b64decode(event["request"]["body"]).decode() for event in by_alice] == [
        shape.body for shape in SHAPES
    ]
    for path, event in zip(paths, by_alice, strict=True):
        seen, told = seen_by_api_server(cluster, path), event["kubernetes"]
        ref = seen.get("objectRef", {})
        assert told["Verb"] == seen["verb"]
        assert {key: told[key] for key in KEYS} == {key: ref.get(name, "") for key, name in KEYS.items()}
    users = {(event["source"]["node"], event["source"]["nodeUser"]) for event in by_alice}
    assert users == {(ground.alice.device.fqdn, ALICE)}
    assert (by_machine["source"]["node"], by_machine["source"]["nodeTags"]) == (ground.machine.device.fqdn, [MACHINES])


@pytest.mark.parametrize("fault", [{"noEvents": True}, {"failure": "the disk is full"}], ids=["old", "failing"])
def test_the_proxy_refuses_requests_that_must_be_recorded_if_the_recorder_cannot_store_events(
    ground: Ground, fault: Object
) -> None:
    first, _ = ground.recorders
    ground.record(first, enableEvents=True)
    with first.faulty(**fault):
        refused, allowed = (request(user, "GET", "/version") for user in (ground.alice, ground.machine))
    assert re.search("the request can't be recorded: .*(takes no events|the disk is full).* 502", refused)
    assert '"gitVersion"' in allowed


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "/api/v1/namespaces/SPACE/pods/web/portforward?ports=8080", "port-forward"),
        ("POST", "/api/v1/namespaces/SPACE/pods/web/exec?command=id", "exec without an upgrade"),
        ("PATCH", "/api/v1/namespaces/SPACE/pods/web/ephemeralcontainers", "ephemeral container"),
        ("POST", f"/api/v1/nodes/{FIRST_NODE.name}/proxy/run/SPACE/web/web?cmd=id", "run"),
        ("POST", f"/api/v1/nodes/{FIRST_NODE.name}/proxy/portForward/SPACE/web", "port-forward"),
    ],
)
def test_if_recording_is_enforced_the_proxy_refuses_sessions_that_it_cannot_record(
    ground: Ground, space: str, method: str, path: str, words: str
) -> None:
    ground.record()
    said = request(ground.alice, method, path.replace("SPACE", space))
    assert re.search(f"this proxy can't record {words} 403", said)


def test_a_port_is_forwarded_only_if_recording_is_not_enforced(ground: Ground, space: str) -> None:
    ground.record()
    words = ["-n", space, "port-forward", "pod/web", ":8080"]
    with pytest.raises(BedError, match="this proxy can't record port-forward"):
        ground.alice.run(*words)
    with ground.machine.running("forward", *words) as running:
        eventually(lambda: "Forwarding from" in running.output, "a forwarded port", 20)


def test_the_sessions_of_a_debugged_pod_are_recorded(ground: Ground, space: str) -> None:
    ground.record()
    words = ["-n", space, "debug", "-it", "web", "--profile=general", f"--image={registry.BASE}", "--", "sh", "-c"]
    with pytest.raises(BedError, match="this proxy can't record ephemeral container"):
        ground.alice.run_on_terminal(*words, "tty")
    with ground.recorded() as found:
        ground.machine.run_on_terminal(*words, "sleep 1; tty")
    assert [(cast.header["kubernetes"]["SessionType"], "/dev/pts/" in cast.output) for cast in found] == [
        ("attach", True)
    ]


def test_the_proxy_refuses_the_requests_of_a_caller_whose_grants_it_cannot_read(ground: Ground, space: str) -> None:
    ground.record()
    ground.replace_rules(alice={"enforceRecorder": "yes"}, machine={})
    said = request(ground.alice, "GET", "/version")
    assert re.search("grants of .* can't be read.* 403", said)
    with pytest.raises(BedError, match=f"the grants of {ALICE} can't be read"):
        ground.alice.run("-n", space, "exec", "web", "--", "echo", "hello")


@contextmanager
def both_ticking(
    ground: Ground, space: str, where: RecorderDevice, environment: Environment
) -> Iterator[tuple[Running, Running]]:
    """Run two commands that print all the time, for Alice and for the machine, while the recorder *where* records both.

    *environment* are more environment variables of kubectl. Yield Alice's command first.
    """
    ground.record(where)
    words = ["-n", space, "exec", "-it", "web", "--", "sh", "-c", TICKING]
    users = (ground.alice, ground.machine)
    enforced, open_ = (user.by(environment).running_on_terminal(f"at-{where.name}", *words) for user in users)
    with enforced as first, open_ as second:
        eventually(lambda: all("tick 3" in each.output for each in (first, second)), "both sessions", 20)
        yield first, second


def check_end(enforced: Running, words: str, began: float) -> float:
    """Check that the session *enforced* ends at most `PATIENCE` seconds after *began*, with *words* on its terminal.

    Return the seconds since *began*, a time by `time.monotonic`.
    """
    left = began + PATIENCE - time.monotonic()
    eventually(lambda: not enforced.process.alive, "the end of the session", left)
    said = enforced.output[-2000:]
    assert re.search(f"this session must be recorded, and that has failed: .*{words}", said), said
    return time.monotonic() - began


def check_ticks(open_: Running) -> None:
    """Check that a session still prints."""
    before = open_.output.count("tick")
    eventually(lambda: open_.output.count("tick") > before + 3, "more of the session", 5)


@STREAMS
def test_a_session_ends_at_once_if_its_recorder_fails(ground: Ground, space: str, environment: Environment) -> None:
    first, _ = ground.recorders
    with (
        both_ticking(ground, space, first, environment) as (enforced, open_),
        first.faulty(failure="the disk is full"),
    ):
        check_end(enforced, "the disk is full", time.monotonic())
        check_ticks(open_)


def test_a_session_ends_soon_if_its_recorder_is_killed_or_silent(
    ground: Ground, cluster: Cluster, space: str, say: Say
) -> None:
    first, second = ground.recorders
    with (
        both_ticking(ground, space, first, {}) as (at_silent, open_at_silent),
        both_ticking(ground, space, second, SPDY) as (at_killed, open_at_killed),
        first.faulty(silent=True),
    ):
        began = time.monotonic()
        tsrecorder(cluster, second).send(SIGKILL)
        took = [check_end(at_killed, second.address, began), check_end(at_silent, "it has acknowledged nothing", began)]
        say(f"enforced sessions ended after {took[0]:.1f} s (recorder killed) and {took[1]:.1f} s (silent)")
        check_ticks(open_at_silent)
        check_ticks(open_at_killed)


def tsrecorder(cluster: Cluster, device: RecorderDevice) -> Process:
    """Return the process of a recorder."""
    name = device.name.partition(".")[0]
    return process_of(cluster.get("pod", name, NAMESPACE) or {}, "tsrecorder")


def test_no_session_begins_without_a_recorder_if_recording_is_enforced(
    ground: Ground, cluster: Cluster, space: str
) -> None:
    first, _ = ground.recorders
    ground.record(first)
    words = ["-n", space, "exec", "web", "--", "echo", "hello"]
    process = tsrecorder(cluster, first)
    process.send(SIGSTOP)
    try:
        with pytest.raises(BedError, match="this session must be recorded, and that has failed"):
            ground.alice.run(*words, timeout=PATIENCE)
        assert ground.machine.run(*words, timeout=PATIENCE) == "hello\n"
    finally:
        process.send(SIGCONT)
