"""The API server proxy as a process, on uvloop: its exit codes, its log, and its end at a signal."""

import asyncio
import json
import re
import resource
import signal
import sys

import pytest
from tsnameserver import __version__
from tsoperator.apiproxy.__main__ import main
from tsoperator.apiproxy.app import most_connections
from tsoperator.apiproxy.settings import PROXY_VARIABLES

from tests.support.apiproxy import TOKEN, Ground, proxy_process
from tests.support.echoserver import Peer


async def line(child: asyncio.subprocess.Process) -> str:
    assert child.stderr
    async with asyncio.timeout(30):
        return (await child.stderr.readline()).decode()


async def test_the_process_serves_callers_and_probes_until_a_signal(ground: Ground) -> None:
    size = 10_000_000

    def script(peer: Peer, _: bytes) -> None:
        peer.answer(b"x" * size)
        peer.close()

    ground.api.scripts["/log"] = script
    async with proxy_process(ground, APISERVER_PROXY_HTTP="true", OPERATOR_LOG_FORMAT="json") as child:
        started = json.loads(await line(child))
        where = f"127.0.0.2:{ground.port} and 127.0.0.2:{ground.http_port}"
        assert started["msg"] == f"serving callers in mode auth on {where}"
        soft, hard = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
        assert soft == hard
        async with ground.connected() as caller:
            caller.send("GET /log HTTP/1.1\r\nHost: k8s\r\n\r\n")
            assert len((await caller.answer()).body) == size
            assert (await caller.ask("/version", "Authorization: Bearer mine")).status == 200
            ground.port = ground.http_port
            async with ground.connected() as plain:
                assert (await plain.ask("/version")).status == 200
                plain.send("GET /version HTTP/1.1\r\nHost: evil.example.net\r\n\r\n")
                assert (await plain.answer()).status == 403
            async with ground.connected("100.64.0.99:1") as unknown:
                assert (await unknown.ask("/version?token=mine")).status == 500
            assert (await probe(ground, "/readyz"), await probe(ground, "/healthz")) == (b"200", b"200")
            ground.token.unlink()
            assert await probe(ground, "/readyz") == b"503"
            child.send_signal(signal.SIGTERM)
            async with asyncio.timeout(5):
                _, log = await child.communicate()
    lines = [json.loads(each)["msg"] for each in log.decode().splitlines()]
    assert child.returncode == 0
    assert lines[-1] == "stopped"
    assert "'evil.example.net' could be the name of another site" in lines.pop(0)
    assert re.fullmatch(r"100\.64\.0\.99:1: refused: the caller could not be authenticated: .*", lines[0])
    assert not re.search(f"mine|{TOKEN}|Bearer", log.decode())


async def probe(ground: Ground, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.2", ground.health_port)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    status = (await reader.read()).split()[1]
    writer.close()
    return status


@pytest.mark.parametrize(("files", "most"), [(resource.RLIM_INFINITY, 4000), (1_048_576, 4000), (4096, 1332), (64, 1)])
def test_the_limit_on_connections_reserves_file_descriptors_for_probes(files: int, most: int) -> None:
    assert most_connections(files) == most


async def test_the_proxy_needs_no_token_in_noauth_mode(ground: Ground) -> None:
    ground.token.unlink()
    async with proxy_process(ground, APISERVER_PROXY="noauth") as child:
        assert "serving callers in mode noauth" in await line(child)
        assert await probe(ground, "/readyz") == b"200"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", ground.http_port)
        ground.socket.rename(ground.socket.with_name("moved"))
        assert await probe(ground, "/readyz") == b"503"
        ground.socket.with_name("moved").rename(ground.socket)


async def test_the_proxy_process_ends_if_it_is_to_listen_on_an_address_of_another_host(ground: Ground) -> None:
    async with proxy_process(ground, POD_IP="192.0.2.1") as child:
        assert "cannot listen on 192.0.2.1" in await line(child)
        async with asyncio.timeout(10):
            assert await child.wait() == 1


def test_a_wrong_setting_ends_the_proxy_process_with_a_line_that_names_the_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["apiproxy"])
    monkeypatch.setenv("APISERVER_PROXY", "maybe")
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (
        2,
        "tsoperator.apiproxy: APISERVER_PROXY: 'maybe' is not true or noauth\n",
    )


@pytest.mark.parametrize(("flag", "words"), [("--help", [*PROXY_VARIABLES]), ("--version", [__version__])])
def test_the_command_line_shows_its_help_and_its_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flag: str, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["apiproxy", flag])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().out
    assert (ended.value.code, [word for word in words if word not in said]) == (0, [])
