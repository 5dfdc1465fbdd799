"""The client against a simulated API server, and against servers that give wrong answers."""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
from aiohttp import web
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from kubernetes.aio.client import Configuration
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, SECRET_METADATA, SERVICE, Key, Object, Resource
from tsoperator.kube.client import KubeClient, WatchTimes
from tsoperator.kube.errors import AlreadyExists, Conflict, Denied, Gone, KubeError, StatusError, Unreachable

from tests.support.cluster import Handler, configuration, kube_client, serving

A = Key("default", "a")


def configmap(name: str = "a", namespace: str = "default", **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": {"k": "v"}}


def names_of(objects: list[Object]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


@asynccontextmanager
async def client_of(handler: Handler, request_timeout: float = 30.0) -> AsyncIterator[KubeClient]:
    async with serving(handler) as url, kube_client(url, request_timeout) as client:
        yield client


def always(status: int = 200, **answer: Any) -> Handler:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=status, **answer)

    return handler


async def first_event(client: KubeClient, version: str = "1", resource: Resource = CONFIGMAP) -> Object:
    async with client.watch(resource, "default", "", version, WatchTimes(30)) as events:
        async for event in events:
            return event
    raise AssertionError("the watch ended without an event")


async def test_the_client_reads_a_long_list_in_pages(sim: ClusterSim, client: KubeClient) -> None:
    for number in range(1001):
        sim.store.create(kinds.CONFIGMAP, configmap(f"a-{number:04}", "tailscale", team="x"))
    sim.store.create(kinds.CONFIGMAP, configmap("z", "tailscale", team="y"))
    listing = await client.list(CONFIGMAP, "tailscale", "team=x")
    assert names_of(listing.items) == [f"a-{number:04}" for number in range(1001)]
    assert listing.resource_version == str(sim.store.revision)
    assert sim.requests["tsoperator", "list", "configmaps"] == 3


async def test_discovery_tells_which_kinds_of_crds_are_served(sim: ClusterSim, client: KubeClient) -> None:
    assert await client.serves(DNSCONFIG)
    sim.kinds.withdraw(kinds.DNSCONFIG)
    assert not await client.serves(DNSCONFIG)
    for kind in kinds.CUSTOM_RESOURCES:
        sim.kinds.withdraw(kind)
    assert not await client.serves(DNSCONFIG)


@pytest.mark.parametrize(
    ("of_version", "of_groups"),
    [
        ((404, {}), (404, {})),
        ((404, {}), (503, {})),
        ((404, {}), (200, {"kind": "Status"})),
        ((403, {}), (200, {"groups": []})),
        ((200, {"kind": "Status"}), (200, {"groups": []})),
    ],
)
async def test_an_answer_that_does_not_list_the_kinds_of_the_api_server_is_an_error(
    of_version: tuple[int, Object], of_groups: tuple[int, Object]
) -> None:
    async def handler(request: web.Request) -> web.Response:
        status, answer = of_groups if request.path == "/apis" else of_version
        return web.json_response(answer, status=status)

    async with client_of(handler) as client:
        with pytest.raises(KubeError):
            await client.serves(DNSCONFIG)


async def test_a_list_has_the_selected_objects_of_all_namespaces_or_of_a_given_namespace(
    sim: ClusterSim, client: KubeClient
) -> None:
    sim.store.create(kinds.CONFIGMAP, configmap("a", **{"team": "x", "example.org/team": "x"}))
    sim.store.create(kinds.CONFIGMAP, configmap("b", other="x"))
    sim.store.create(kinds.CONFIGMAP, configmap("c", "tailscale"))
    assert {"a", "b", "c"} <= {*names_of((await client.list(CONFIGMAP)).items)}
    listing = await client.list(CONFIGMAP, "default")
    kinds_and_names = [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in listing.items]
    assert kinds_and_names == [("v1", "ConfigMap", "a"), ("v1", "ConfigMap", "b")]
    for version in (client.current_version(CONFIGMAP, "default"), client.current_version(DNSCONFIG)):
        assert await version == listing.resource_version == str(sim.store.revision)
    selector = "team in (x,y),example.org/team,!other"
    chosen = await client.list(CONFIGMAP, "default", selector, slim=lambda obj: {"name": obj["metadata"]["name"]})
    assert chosen.items == [{"name": "a"}]
    assert (await client.list(DNSCONFIG)).items == []


async def test_secrets_are_listed_and_watched_without_their_data(sim: ClusterSim, client: KubeClient) -> None:
    for name in "ab":
        sim.store.create(kinds.SECRET, {"metadata": {"name": name, "namespace": "default"}, "stringData": {"k": "v"}})
    listed = (await client.list(SECRET_METADATA, "default")).items
    event = await first_event(client, listed[0]["metadata"]["resourceVersion"], SECRET_METADATA)
    assert names_of([*listed, event["object"]]) == ["a", "b", "b"]
    assert [sorted(each) for each in (*listed, event["object"])] == [["apiVersion", "kind", "metadata"]] * 3


@pytest.mark.parametrize(
    ("status", "text", "content_type"),
    [(200, "ok", "text/plain"), (503, "[-] cache", "text/plain"), (200, "{}", "application/json")],
)
async def test_the_client_returns_the_answer_of_a_pod_that_the_api_server_forwards(
    status: int, text: str, content_type: str
) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=status, text=text, content_type=content_type)

    async with client_of(answer) as client:
        assert await client.ask_pod(A, 9002, "/readyz") == (status, text)
    assert seen == ["/api/v1/namespaces/default/pods/a:9002/proxy/readyz"]


async def test_a_merge_patch_of_an_object_or_a_subresource_changes_only_the_fields_in_the_patch(
    sim: ClusterSim, client: KubeClient
) -> None:
    sim.store.create(kinds.CONFIGMAP, configmap(team="x"))
    patched = await client.patch(CONFIGMAP, A, {"data": {"k": None, "l": "m"}})
    assert (patched["data"], patched["metadata"]["labels"]) == ({"l": "m"}, {"team": "x"})
    service = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"ports": [{"port": 1}]}}
    sim.store.create(kinds.SERVICE, service)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert (await client.patch(SERVICE, A, {"status": ready}, "status"))["status"].items() >= ready.items()


async def test_the_replacement_of_the_status_of_an_object_changes_no_other_field(
    sim: ClusterSim, client: KubeClient
) -> None:
    made = sim.store.create(kinds.DNSCONFIG, {"metadata": {"name": "a"}, "spec": {"nameserver": {}}})
    stored = await client.replace_status(DNSCONFIG, {**made, "spec": {}, "status": {"conditions": []}})
    assert (stored["spec"], stored["status"]) == ({"nameserver": {}}, {"conditions": []})
    with pytest.raises(Conflict):
        await client.replace_status(DNSCONFIG, {**made, "status": {}})


async def test_a_refusal_of_the_api_server_is_an_error_with_the_path_and_the_servers_words() -> None:
    text = '{"kind": "Status", "reason": "Expired", "message": "no"}'
    async with client_of(always(410, text=text, content_type="application/json")) as client:
        for request in (client.get(CONFIGMAP, A), first_event(client), client.ask_pod(A, 9002, "/readyz")):
            with pytest.raises(Gone, match=r"/api/v1/namespaces/default/.*: no"):
                await request


async def test_a_web_page_in_place_of_json_is_an_error(sim: ClusterSim, client: KubeClient) -> None:
    sim.faults.nonsense = True
    for request in (client.get(CONFIGMAP, A), client.list(CONFIGMAP), first_event(client)):
        with pytest.raises(KubeError, match=r"not an API server's answer .*<html>"):
            await request


@pytest.mark.parametrize("text", ["[]", '"ok"', "{}", '{"metadata": {}, "items": []}'])
async def test_an_answer_that_is_no_list_is_not_taken_for_an_empty_list(text: str) -> None:
    async with client_of(always(text=text)) as client:
        for request in (client.list(CONFIGMAP), client.current_version(CONFIGMAP)):
            with pytest.raises(KubeError, match="not an API server's answer"):
                await request


@pytest.mark.parametrize("text", ["<html>Bad Gateway</html>", "[]", "null", ""])
async def test_the_error_for_a_web_page_from_an_http_proxy_before_the_api_server_has_the_status_code(text: str) -> None:
    async with client_of(always(502, text=text)) as client:
        with pytest.raises(StatusError, match="HTTP 502 Bad Gateway") as caught:
            await client.get(CONFIGMAP, A)
    assert caught.value.status == 502


async def test_a_refused_connection_is_an_error_that_says_that_the_api_server_cannot_be_reached() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with kube_client(f"http://127.0.0.1:{unused.getsockname()[1]}") as client:
            await reach_nobody(client)


async def test_an_api_server_that_is_slow_or_cuts_the_connection_counts_as_unreachable(sim: ClusterSim) -> None:
    async with kube_client(sim.api_url, request_timeout=0.1) as client, asyncio.timeout(30):
        sim.faults.latency = 30
        await reach_nobody(client)
        sim.faults.leave()
        await reach_nobody(client)


async def reach_nobody(client: KubeClient) -> None:
    for request in (
        client.get(CONFIGMAP, A),
        client.list(CONFIGMAP),
        client.create(CONFIGMAP, configmap()),
        client.delete(CONFIGMAP, A),
        first_event(client),
    ):
        with pytest.raises(Unreachable):
            await request


async def test_the_observer_and_the_log_get_the_method_and_the_status_of_each_request(
    sim: ClusterSim, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tsoperator.kube.client")
    told: list[tuple[str, str]] = []
    async with KubeClient(configuration(sim.api_url), observe=lambda *answer: told.append(answer)) as client:
        version = (await client.create(CONFIGMAP, configmap()))["metadata"]["resourceVersion"]
        with pytest.raises(AlreadyExists):
            await client.create(CONFIGMAP, configmap())
        await client.delete(CONFIGMAP, A)
        await first_event(client, version)
        sim.faults.leave()
        with pytest.raises(Unreachable):
            await client.get(CONFIGMAP, A)
    assert told == [("POST", "201"), ("POST", "409"), ("DELETE", "200"), ("WATCH", "200"), ("GET", "none")]
    assert re.fullmatch(r"POST /api/v1/namespaces/default/configmaps: 201 in \d+\.\d ms", caplog.messages[0])


async def test_a_line_is_logged_when_a_server_stops_answering_and_when_it_answers_again(
    sim: ClusterSim, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tsoperator.kube.client")
    sim.faults.leave()
    for _ in range(2):
        with pytest.raises(Unreachable):
            await client.get(CONFIGMAP, A)
    sim.faults.clear()
    await client.create(CONFIGMAP, configmap())
    await client.get(CONFIGMAP, A)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[0].startswith("the API server does not answer, so nothing changes until it does: GET /api/")
    assert caplog.messages[1] == "the API server answers again"


async def test_an_api_server_whose_answer_does_not_end_in_time_counts_as_unreachable() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"metadata":')
        await asyncio.Event().wait()
        return response

    async with client_of(handler, request_timeout=0.2) as client:
        with pytest.raises(Unreachable, match="GET /api/v1/namespaces/default/configmaps/a: TimeoutError"):
            await client.get(CONFIGMAP, A)


async def test_a_watch_delivers_objects_of_the_largest_size(sim: ClusterSim, client: KubeClient) -> None:
    before = str(sim.store.revision)
    sim.store.create(kinds.CONFIGMAP, {**configmap(), "data": {"k": "v" * 1_000_000}})
    assert len((await first_event(client, before))["object"]["data"]["k"]) == 1_000_000


async def test_a_watch_without_events_stays_open_for_longer_than_the_timeout_of_other_requests(
    sim: ClusterSim,
) -> None:
    loop = asyncio.get_running_loop()
    async with kube_client(sim.api_url, request_timeout=1) as client:
        start = loop.time()
        async with client.watch(CONFIGMAP, "default", "", str(sim.store.revision), WatchTimes(2)) as events:
            assert sim.requests["tsoperator", "watch", "configmaps"] == 1
            assert [event["type"] async for event in events] == ["BOOKMARK"]
    assert loop.time() - start > 1.5


async def test_a_watch_that_is_cut_in_the_middle_of_an_event_fails() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED", "obj')
        assert request.transport
        request.transport.close()
        return response

    async with client_of(handler) as client:
        with pytest.raises(KubeError, match="watch /api/v1/namespaces/default/configmaps"):
            await first_event(client)


class Guard:
    """A server that accepts one token. It delays its refusals until a given number of requests wait for a refusal.

    *told* has the method of each request and the status code of its answer, as the client observes them.
    """

    def __init__(self, token: str, refusals: int = 1) -> None:
        self.token = token
        self.loads = 0
        self.told: list[tuple[str, str]] = []
        self._refusals = asyncio.Barrier(refusals)

    async def answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") == f"Bearer {self.token}":
            found = {"type": "ADDED", "object": {}} if "watch" in request.query else {"kind": "ConfigMap"}
            return web.json_response(found)
        await self._refusals.wait()
        return web.json_response({"reason": "Unauthorized"}, status=401)

    @asynccontextmanager
    async def client(
        self,
        reload: Callable[[], Awaitable[Configuration]] | None = None,
        handler: Handler | None = None,
        timeout: float = 5,
    ) -> AsyncIterator[KubeClient]:
        """Yield a client with the token ``old``. When it reads its configuration again, its token is ``new``.

        *handler* answers its requests. *reload* replaces the reading of the configuration.
        """

        async def load() -> Configuration:
            self.loads += 1
            return configuration(url, "new")

        def observe(method: str, code: str) -> None:
            self.told.append((method, code))

        async with serving(handler or self.answer) as url:
            old = configuration(url, "old")
            async with KubeClient(old, reload=reload or load, request_timeout=timeout, observe=observe) as client:
                yield client


async def test_the_client_reads_its_credentials_again_only_once_if_the_api_server_refuses_several_requests() -> None:
    guard = Guard("new", refusals=5)
    async with guard.client() as client:
        answers = await asyncio.gather(*(client.get(CONFIGMAP, A) for _ in range(5)))
    assert answers == [{"kind": "ConfigMap"}] * 5
    assert (sorted(guard.told), guard.loads) == ([("GET", "200")] * 5 + [("GET", "401")] * 5, 1)


@pytest.mark.parametrize("method", ["GET", "WATCH"])
@pytest.mark.parametrize(
    ("token", "codes"), [("old", ["200"]), ("new", ["401", "200"]), ("another", ["401", "401"])], ids=str
)
async def test_the_client_reads_its_credentials_again_if_the_api_server_refuses_them(
    method: str, token: str, codes: list[str]
) -> None:
    guard = Guard(token)
    async with guard.client() as client:
        with pytest.raises(Denied) if token == "another" else nullcontext():
            await (client.get(CONFIGMAP, A) if method == "GET" else first_event(client))
    assert (guard.told, guard.loads) == ([(method, code) for code in codes], len(codes) - 1)


async def test_a_request_in_progress_survives_a_change_of_credentials() -> None:
    arrived, changed = asyncio.Event(), asyncio.Event()
    guard = Guard("new")

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/slow"):
            arrived.set()
            await changed.wait()
            return web.json_response({"kind": "ConfigMap"})
        return await guard.answer(request)

    async with guard.client(handler=handler) as client, asyncio.TaskGroup() as tasks:
        slow = tasks.create_task(client.get(CONFIGMAP, Key("default", "slow")))
        await arrived.wait()
        await client.get(CONFIGMAP, A)
        changed.set()
        assert await slow == {"kind": "ConfigMap"}


@pytest.mark.parametrize(
    ("hangs", "error", "words"),
    [(False, KubeError, "no credentials"), (True, Unreachable, r"no fresh credentials within 0\.5 s")],
)
async def test_a_refused_request_fails_if_the_credentials_cannot_be_read_again(
    hangs: bool, error: type[Exception], words: str
) -> None:
    async def reload() -> Configuration:
        if hangs:
            await asyncio.Event().wait()
        raise KubeError("no credentials")

    guard = Guard("new")
    async with guard.client(reload, timeout=0.5) as client:
        for request in (client.get(CONFIGMAP, A), first_event(client)):
            with pytest.raises(error, match=words):
                await request
    assert guard.told == [("GET", "401"), ("WATCH", "401")]


async def test_unusable_certificates_in_the_configuration_of_the_client_are_an_error() -> None:
    useless = configuration("https://127.0.0.1:1")
    useless.ca_cert_data = "nonsense"
    with pytest.raises(KubeError, match=r"certificates that lead to https://127\.0\.0\.1:1"):
        KubeClient(useless)


@pytest.mark.parametrize(
    ("host", "field", "value", "sent"),
    [
        ("https://api.example.org", "proxy", "http://127.0.0.1:{port}", b"CONNECT api.example.org:443 "),
        ("https://127.0.0.1:{port}", "tls_server_name", "api.example.org", b"api.example.org"),
    ],
    ids=["a proxy", "a name for the certificate"],
)
async def test_the_client_uses_the_http_proxy_and_the_tls_server_name_of_its_configuration(
    host: str, field: str, value: str, sent: bytes
) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(4096))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        made = configuration(host.format(port=port))
        setattr(made, field, value.format(port=port))
        made.proxy_headers = {"Proxy-Authorization": "Basic eA=="}
        async with KubeClient(made) as client:
            with pytest.raises(Unreachable):
                await client.get(CONFIGMAP, A)
    assert sent in heard[0]
    assert (b"Basic eA==" in heard[0]) == bool(made.proxy)
