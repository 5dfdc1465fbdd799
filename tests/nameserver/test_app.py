"""Tests of the parts put together, where a test of the command can't make one of them fail."""

import asyncio
import logging
import re

import dns.asyncquery
import dns.rcode
import pytest
from tsnameserver.app import run
from tsnameserver.settings import read_settings

from tests.nameserver.samples import make_query

UNREADABLE = "a\0b"
"""A path that makes the follower fail with an exception that it doesn't foresee: ValueError."""


async def test_a_follower_that_fails_starts_again_and_queries_are_answered(caplog: pytest.LogCaptureFixture) -> None:
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
