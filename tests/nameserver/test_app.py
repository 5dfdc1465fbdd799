"""Tests of the whole nameserver, with failures that can't be caused from outside of its process."""

import asyncio
import ctypes
import logging
import re
import resource
import threading

import aiohttp
import dns.asyncquery
import dns.rcode
import pytest
from tsnameserver.app import run, tcp_limits
from tsnameserver.settings import read_settings

from tests.nameserver.samples import make_query
from tests.support.cluster import running, until

UNREADABLE = "a\0b"
"""A path that makes the follower fail with ValueError, an exception that it doesn't expect."""


async def test_the_nameserver_restarts_a_follower_that_fails_and_keeps_answering_queries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    words = [f"--records={UNREADABLE}", "--listen=127.0.0.1:0", "--health=", "--metrics="]
    task = asyncio.create_task(run(read_settings(words, {})))
    while caplog.text.count("file failed unexpectedly") < 2:
        await asyncio.wait([task], timeout=0.01)
        assert not task.done()
    port = int(re.findall(r"127\.0\.0\.1:(\d+)", caplog.text)[0])
    for ask in (dns.asyncquery.udp, dns.asyncquery.tcp):
        answer = await ask(make_query("a.ts.net"), "127.0.0.1", port=port, timeout=3)
        assert answer.rcode() == dns.rcode.SERVFAIL
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    ("allowed", "servers", "most"),
    [(1024, 1, 768), (1024, 2, 384), (1 << 20, 2, 1000), (resource.RLIM_INFINITY, 2, 1000), (200, 1, 1)],
)
def test_the_limit_of_tcp_connections_leaves_file_descriptors_for_other_purposes(
    monkeypatch: pytest.MonkeyPatch, allowed: int, servers: int, most: int
) -> None:
    monkeypatch.setattr("tsnameserver.app.getrlimit", lambda _: (allowed, allowed))
    assert tcp_limits(servers).connections == most


def end(thread: threading.Thread) -> None:
    """End *thread* by an exception that it doesn't expect."""
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
    thread.join(10)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_the_nameserver_is_unhealthy_once_one_of_its_udp_threads_has_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    words = ["--listen=127.0.0.1:0", "--listen=127.0.0.2:0", "--health=127.0.0.1:0", "--metrics=", "--udp-loop=python"]
    async with running(run(read_settings(words, {}))), aiohttp.ClientSession() as client:
        await until(lambda: "listening on" in caplog.text)
        (port,) = re.findall(r"probes on 127\.0\.0\.1:(\d+)", caplog.text)
        async with client.get(f"http://127.0.0.1:{port}/healthz") as response:
            assert response.status == 200
        end(next(each for each in threading.enumerate() if each.name.startswith("udp 127.0.0.2:")))
        async with client.get(f"http://127.0.0.1:{port}/healthz") as response:
            assert response.status == 503
