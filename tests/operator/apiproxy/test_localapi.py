"""The answers that callers get while tailscaled is away, hangs, or gives odd answers."""

import pytest
from tsoperator.apiproxy.localapi import LocalApi
from tsoperator.apiproxy.session import SessionLimits

from tests.support.apiproxy import ALICE, Ground

AFRESH = SessionLimits(whois=0)


async def test_callers_are_refused_only_while_tailscaled_is_away(ground: Ground) -> None:
    async with ground.serving(limits=AFRESH), ground.connected() as caller:
        socket = ground.socket.with_name("moved")
        ground.socket.rename(socket)
        answer = await caller.ask()
        assert (answer.status, answer.headers["content-type"]) == (500, "text/plain; charset=utf-8")
        assert answer.body == (
            b"the caller could not be authenticated: tailscaled can't be asked: No such file or directory\n"
        )
        socket.rename(ground.socket)
        assert (await caller.ask()).status == 200
    assert ground.counts.refusals == {"whois-localapi": 1}


async def test_callers_are_refused_only_while_tailscaled_hangs(ground: Ground) -> None:
    async with ground.serving(limits=AFRESH, patience=1), ground.connected() as caller:
        ground.tailscaled.answers.clear()
        answer = await caller.ask()
        assert (answer.status, b"tailscaled doesn't answer within 1 s" in answer.body) == (500, True)
        ground.tailscaled.answers.set()
        assert (await caller.ask()).status == 200


async def test_a_caller_that_tailscaled_does_not_know_is_refused(ground: Ground) -> None:
    async with ground.serving(), ground.connected("100.64.0.99:1") as caller:
        assert (await caller.ask()).status == 500
    assert (ground.counts.refusals, ground.api.heads) == ({"whois-unknown": 1}, [])


ODD = {
    "an error": (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "whois-localapi"),
    "no HTTP": (b"SSH-2.0\r\n\r\n", "whois-localapi"),
    "nothing": (b"\r\n", "whois-localapi"),
    "a part": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "whois-localapi"),
    "too much": (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (2 << 20), "whois-localapi"),
    "no JSON": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "whois-answer"),
}


@pytest.mark.parametrize(("raw", "reason"), ODD.values(), ids=ODD)
async def test_a_caller_is_refused_if_tailscaled_gives_an_odd_answer(ground: Ground, raw: bytes, reason: str) -> None:
    ground.tailscaled.raw = raw
    async with ground.serving(), ground.connected() as caller:
        assert (await caller.ask()).status == 500
    assert (ground.counts.refusals, ground.api.heads) == ({reason: 1}, [])


async def test_the_readiness_probe_names_the_problem_of_tailscaled(ground: Ground) -> None:
    local_api = LocalApi(ground.socket)
    assert await local_api.problem() == ""
    ground.tailscaled.raw = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
    assert await local_api.problem() == "tailscaled answers with status 500"
    assert await LocalApi(ground.folder / "none").problem() == "tailscaled can't be asked: No such file or directory"
    assert ALICE not in ground.tailscaled.asked
