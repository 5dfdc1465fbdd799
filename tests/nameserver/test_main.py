"""Tests of the command `tsnameserver`: its parts together, its log and its exit codes."""

import asyncio
import json
import logging
import resource
import signal
import socket
import sys
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import dns.asyncquery
import dns.rcode
import pytest
from tsnameserver.__main__ import JsonFormatter
from tsnameserver.compiled import COMPILED
from tsnameserver.records import Records, render

from tests.nameserver.api_server import api_server
from tests.nameserver.samples import DOCUMENT, make_query, texts
from tests.support.nameserver import nameserver, started_nameserver

DB = "db.tail1234.ts.net"


def one_address(number: int) -> str:
    """Return records in which DB has one address that ends in *number*."""
    return render(Records(ip4={DB: [f"100.64.0.{number}"]}, serial=number))


async def test_queries_get_servfail_and_the_pod_is_not_ready_until_valid_records_arrive(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    async with nameserver(path, "--log-format", "json") as running:
        await running.says("no whole set of records from the file")
        assert (await running.ask(DB)).rcode() == dns.rcode.SERVFAIL
        assert [await running.status(path) for path in ("/healthz", "/readyz")] == [200, 503]
        path.write_text(DOCUMENT)
        await running.says("serving 7 names, as the file has them")
        assert texts(await running.ask(DB)) == ["100.64.0.1"]
        assert await running.status("/readyz") == 200
        page = await running.scrape()
        assert f'{{server="dns://127.0.0.1:{running.port}",proto="udp",family="1",type="A"}} 2\n' in page
        assert "tsnameserver_records_serial 7\n" in page
        assert {json.loads(line)["level"] for line in running.log} == {"info", "warn"}


async def test_the_nameserver_raises_its_limit_of_file_descriptors_to_the_hard_limit(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # the nameserver inherits this limit
    try:
        async with nameserver(tmp_path / "records.json") as running:
            assert resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_the_file_of_records_is_used_only_while_the_api_server_is_unreachable(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_text(DOCUMENT)
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(api_server("tailscale"))
        api.write("dnsrecords", one_address(5))
        arguments = ("--api-server", api.url, "--namespace", "tailscale", "--service-account", str(tmp_path))
        async with nameserver(path, *arguments) as running:
            await running.says("as the API server has them")
            assert texts(await running.ask(DB)) == ["100.64.0.5"]
            api.write("dnsrecords", one_address(6))
            while texts(await running.ask(DB)) != ["100.64.0.6"]:
                continue
            await stack.aclose()
            await running.says("serving 7 names, as the file has them")


async def test_a_restarted_nameserver_serves_the_records_in_its_snapshot_while_the_api_server_is_unreachable(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    arguments = ["--namespace", "tailscale", "--service-account", str(tmp_path), "--snapshot", str(kept)]
    async with api_server("tailscale") as api:
        arguments += ["--api-server", api.url]
        api.write("dnsrecords", one_address(5))
        async with nameserver(tmp_path / "none", *arguments) as running:
            await running.says("as the API server has them")
            while not kept.exists():
                await running.scrape()
    async with nameserver(tmp_path / "none", *arguments) as running:
        await running.says("serving 1 names, as the snapshot has them")
        assert texts(await running.ask(DB)) == ["100.64.0.5"]
        page = await running.scrape()
        assert 'tsnameserver_records_source{source="snapshot"} 1\n' in page
        assert "tsnameserver_api_followed 0\n" in page
        assert await running.status("/readyz") == 200


async def test_sighup_makes_the_nameserver_reload_the_records_and_log_their_problems_again(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_text(DOCUMENT)
    async with nameserver(path) as running:
        await running.says("serving 7 names, as the file has them")
        path.write_text("{")
        await running.says("records.json is ignored")
        for _ in range(2):
            running.process.send_signal(signal.SIGHUP)
            await running.says("SIGHUP: reading the records again")
            await running.says("records.json is ignored")
        assert texts(await running.ask(DB)) == ["100.64.0.1"]
        path.write_text(DOCUMENT)
        running.process.send_signal(signal.SIGHUP)
        await running.says("serving 7 names, as the file has them")


async def test_sighup_makes_the_nameserver_list_the_records_of_the_api_server_at_once(tmp_path: Path) -> None:
    async with api_server("tailscale") as api:
        api.write("dnsrecords", one_address(5))
        api.refuse_with = 403  # after this refusal, the follower would wait for half a minute
        arguments = ("--api-server", api.url, "--namespace", "tailscale", "--service-account", str(tmp_path))
        async with nameserver(tmp_path / "none", *arguments) as running, asyncio.timeout(10):
            await running.says("grant list and watch on configmaps")
            api.refuse_with = 0
            for lists in (2, 3):
                running.process.send_signal(signal.SIGHUP)
                await running.says("serving 1 names, as the API server has them")
                assert len(api.lists) == lists
            assert texts(await running.ask(DB)) == ["100.64.0.5"]


def test_a_line_of_the_json_log_contains_its_exception() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("some.logger", logging.ERROR, "", 1, "on %s", ("this",), sys.exc_info())
    line = JsonFormatter().format(record)
    assert "\n" not in line
    logged = json.loads(line)
    assert "ValueError: two\nlines" in logged.pop("stacktrace")
    assert datetime.fromisoformat(logged.pop("ts")).tzinfo is not None
    assert logged == {"level": "error", "logger": "some.logger", "msg": "on this", "error": "two\nlines"}


@pytest.mark.parametrize(("flag", "loop"), [("auto", "compiled" if COMPILED else "Python's"), ("python", "Python's")])
async def test_the_log_has_the_udp_loop_at_the_start_and_with_log_queries_a_line_for_each_query(
    flag: str, loop: str, tmp_path: Path
) -> None:
    async with nameserver(tmp_path / "none.json", "--udp-loop", flag, "--log-queries", "1/1") as running:
        assert f" the UDP loop is {loop}" in await running.says("the UDP loop")
        for transport, send in (("tcp", dns.asyncquery.tcp), ("udp", dns.asyncquery.udp)):
            await send(make_query(DB, "AAAA"), "127.0.0.1", port=running.port, timeout=3)
            said = f"client=127.0.0.1 transport={transport} qname={DB}. qtype=AAAA rcode=SERVFAIL\n"
            assert (await running.says("transport=")).endswith(said)


async def ended(*arguments: str, **environment: str) -> tuple[int | None, str]:
    """Run the command until it ends without a signal. Return its exit code and its output."""
    process = await started_nameserver(*arguments, **environment)
    async with asyncio.timeout(30):
        _, stderr = await process.communicate()
    return process.returncode, stderr.decode()


async def test_the_nameserver_prints_one_line_and_exits_with_1_for_a_port_in_use_and_2_for_a_wrong_setting() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        said = f"tsnameserver: can't listen on {where} by UDP: Address already in use\n"
        assert await ended("--listen", where) == (1, said)
    said = "tsnameserver: TSNAMESERVER_TTL: 'soon': is not a whole number of seconds from 0 to 2147483647\n"
    assert await ended(TSNAMESERVER_TTL="soon") == (2, said)
