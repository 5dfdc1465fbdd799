import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from clustersim.objects import POD
from clustersim.programs import Program
from clustersim.sim import ClusterSim, SimOptions, cluster_sim

from tests.support.cluster import serving

POD_PATH = "/api/v1/namespaces/tailscale/pods/operator-1"


async def hello(request: web.Request) -> web.StreamResponse:
    return web.Response(text=f"{request.path} on {request.headers['Host'].partition(':')[0]}")


@asynccontextmanager
async def playing(program: Program) -> AsyncIterator[aiohttp.ClientSession]:
    """Run a cluster with a Pod that *program* plays. Yield a client of the API server."""
    async with cluster_sim(SimOptions(programs=(program,))) as sim, aiohttp.ClientSession(sim.api_url) as session:
        make_pod(sim, program.name)
        yield session


def make_pod(sim: ClusterSim, app: str) -> None:
    metadata = {"name": f"{app}-1", "namespace": "tailscale", "labels": {"app": app}}
    sim.store.create(POD, {"metadata": metadata, "spec": {"containers": [{"name": app, "image": "example.org/a:1"}]}})


@pytest.mark.parametrize(("query", "text"), [("", "one\ntwo\n"), ("?tailLines=1", "two\n"), ("?tailLines=0", "")])
async def test_the_log_of_a_pod_is_the_log_of_the_program_that_plays_the_pod(
    tmp_path: Path, query: str, text: str
) -> None:
    log = tmp_path / "operator.log"
    log.write_text("one\ntwo\n")
    async with playing(Program("operator", log)) as session, session.get(f"{POD_PATH}/log{query}") as response:
        assert (response.content_type, await response.text()) == ("text/plain", text)


async def test_a_client_follows_the_log_of_a_pod(tmp_path: Path) -> None:
    log = tmp_path / "operator.log"
    log.write_text("one\n")
    follow = f"{POD_PATH}/log?follow=true&tailLines=0"
    async with playing(Program("operator", log)) as session, session.get(follow) as response:
        with log.open("a") as more:
            more.write("two\n")
        async with asyncio.timeout(10):
            assert await response.content.readline() == b"two\n"


async def test_the_log_of_a_pod_without_a_program_says_that_no_program_runs_in_the_pod() -> None:
    async with cluster_sim() as sim, aiohttp.ClientSession(sim.api_url) as session:
        make_pod(sim, "operator")
        async with session.get(f"{POD_PATH}/log") as response:
            assert "no program runs in it" in await response.text()


async def test_a_client_reaches_the_port_of_a_pod_by_the_proxy_of_the_pod() -> None:
    async with serving(hello) as url:
        outside = int(url.rpartition(":")[2])
        async with playing(Program("operator", ports={9002: outside})) as session:
            async with session.get(f"{POD_PATH}:9002/proxy/readyz") as response:
                assert (response.status, await response.text()) == (200, "/readyz on 127.0.0.1")
            async with session.get(f"{POD_PATH}:80/proxy/") as response:
                assert (response.status, (await response.json())["reason"]) == (503, "ServiceUnavailable")


async def test_a_client_forwards_the_port_of_a_pod_by_websocket() -> None:
    async with serving(hello) as url:
        outside = int(url.rpartition(":")[2])
        async with playing(Program("operator", ports={9003: outside})) as session:
            path, protocols = f"{POD_PATH}/portforward?ports=9003", ("v4.channel.k8s.io",)
            async with session.ws_connect(path, protocols=protocols) as socket:
                heads = [await socket.receive_bytes() for _ in range(2)]
                await socket.send_bytes(b"\0GET /status HTTP/1.0\r\nHost: localhost\r\n\r\n")
                answer = await socket.receive_bytes()
    assert heads == [b"\0" + (9003).to_bytes(2, "little"), b"\1" + (9003).to_bytes(2, "little")]
    assert (answer[:1], answer.endswith(b"/status on localhost")) == (b"\0", True)


def test_the_description_of_a_program_that_plays_pods_is_unchanged_after_a_round_trip_through_json(
    tmp_path: Path,
) -> None:
    program = Program("operator", tmp_path / "a.log", {9002: 1234})
    assert Program.parse(program.to_json()) == program
