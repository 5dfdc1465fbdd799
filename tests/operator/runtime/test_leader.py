import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.objects import LEASE
from tsoperator.kube.errors import Denied, Unreachable
from tsoperator.runtime.holder import Process
from tsoperator.runtime.leader import LeadershipLost, Timing

from tests.operator.runtime.candidates import Candidate, Diary
from tests.operator.runtime.lease_server import KEY, Fate, LeaseServer, Link
from tests.support.virtual_time import in_virtual_time, now


@in_virtual_time
async def test_a_leader_writes_and_renews_the_lease_in_the_format_of_client_go() -> None:
    server = LeaseServer()
    await Candidate(server, Diary(), "a").lead(until=5)
    record = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2030-01-01T00:00:00.000000Z",
        "renewTime": "2030-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    assert [time for time, _ in server.writes] == [0, 2, 4, 5]
    assert server.writes[0][1] == record
    assert server.writes[2][1] == {**record, "renewTime": "2030-01-01T00:00:04.000000Z"}


@in_virtual_time
async def test_the_lease_of_a_crashed_leader_is_taken_when_it_has_run_out() -> None:
    server, diary = LeaseServer(), Diary()
    first = Candidate(server, diary, "a")
    async with asyncio.TaskGroup() as group:
        group.create_task(first.lead(until=5))
        await asyncio.sleep(1)
        group.create_task(Candidate(server, diary, "b").lead(until=40))
        await asyncio.sleep(3.5)
        first.link.away = True  # so that the first candidate stops without a release of the Lease
    assert diary.terms == [("a", 0, 5), ("b", 21, 40)]  # b saw the renewal of second 4 at second 5


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({}, 16),
        ({"leaseDurationSeconds": 30}, 30),
        ({"leaseDurationSeconds": 5}, 6),
        ({"leaseDurationSeconds": None}, 16),
        ({"renewTime": "2999-01-01T00:00:00.000000Z"}, 16),
        ({"renewTime": None}, 16),
        ({"holderIdentity": ""}, 0),
        ({"holderIdentity": None}, 0),
        ({"holderIdentity": "b"}, 0),
    ],
)
@in_virtual_time
async def test_a_standby_waits_for_the_duration_in_the_lease_by_its_own_clock(
    fields: dict[str, object], taken: float
) -> None:
    """Use an elector that reads the Lease every 2 seconds, so that it can lead up to 2 seconds late."""
    server, diary = LeaseServer(), Diary()
    server.put_record("other", **fields)
    await Candidate(server, diary, "b").lead(until=60)
    assert diary.terms == [("b", taken, 60)]


@in_virtual_time
async def test_a_new_holder_of_the_lease_adds_one_to_its_transitions_and_keeps_its_other_fields() -> None:
    server = LeaseServer()
    server.put_record("", strategy="OldestEmulationVersion")
    await Candidate(server, Diary(), "b").lead(until=1)
    assert (server.spec["leaseTransitions"], server.spec["strategy"]) == (4, "OldestEmulationVersion")


@in_virtual_time
async def test_a_standby_waits_as_long_as_the_holder_renews() -> None:
    async def renew(server: LeaseServer) -> None:
        for second in range(0, 100, 10):
            server.put_record("other", renewTime=f"2001-01-01T00:00:{second:02}.000000Z")
            await asyncio.sleep(10)

    server, diary = LeaseServer(), Diary()
    async with asyncio.TaskGroup() as group:
        group.create_task(renew(server))
        group.create_task(Candidate(server, diary, "b").lead(until=100))
    assert diary.terms == []


@pytest.mark.parametrize("how", ["away", "hangs"])
@pytest.mark.parametrize(("seconds", "end"), [(4, 60), (60, 13)], ids=["short", "long"])
@in_virtual_time
async def test_a_leader_outlasts_a_short_outage_of_the_api_server_but_stops_in_a_long_one(
    how: str, seconds: float, end: float
) -> None:
    diary = Diary()
    candidate = Candidate(LeaseServer(), diary, "a")
    async with asyncio.TaskGroup() as group:
        leading = group.create_task(lost(candidate.lead(until=60)))
        await asyncio.sleep(4.5)
        setattr(candidate.link, how, True)
        await asyncio.sleep(min(seconds, 10))
        setattr(candidate.link, how, seconds > 10)
    assert diary.terms == [("a", 0, end)]
    assert leading.result() == ("could not renew tailscale/operator for 9 s" if seconds > 10 else "")


@pytest.mark.parametrize(
    ("holder", "words"),
    [("other", "is held by other"), ("", "is held by nobody"), (None, "was deleted")],
    ids=str,
)
@in_virtual_time
async def test_a_leader_stops_when_the_lease_is_deleted_or_no_longer_its_own(holder: str | None, words: str) -> None:
    server, diary = LeaseServer(), Diary()
    async with asyncio.TaskGroup() as group:
        leading = group.create_task(lost(Candidate(server, diary, "a").lead(until=60)))
        await asyncio.sleep(3)
        server.lease = None
        if holder is not None:
            server.put_record(holder)
    assert leading.result() == f"tailscale/operator {words}"
    assert diary.terms == [("a", 0, 6)]  # its renewal is refused at second 4, and it reads the Lease at second 6
    assert (server.lease and server.spec["holderIdentity"]) == holder


@pytest.mark.parametrize(
    ("slow_stop", "aborted", "stopped", "fates"),
    [
        (0.4, [], 9.4, ()),
        (100, [9.5], 109, ()),
        (100, [2 + 9.5], 2 + 109, (Fate(), Fate(), Fate(back=3.4))),
    ],
    ids=["in time", "too late", "the lease runs from when its renewal was sent, not answered"],
)
@in_virtual_time
async def test_a_process_whose_work_does_not_stop_is_ended_before_another_process_can_lead(
    slow_stop: float, aborted: list[float], stopped: float, fates: tuple[Fate, ...]
) -> None:
    diary = Diary()
    candidate = Candidate(LeaseServer(), diary, "a", fates)
    async with asyncio.TaskGroup() as group:
        group.create_task(lost(candidate.lead(until=120, slow_stop=slow_stop)))
        await asyncio.sleep(6 if fates else 1)
        candidate.link.away = True
    assert diary.aborted == [("a", moment) for moment in aborted]
    assert (diary.terms, now()) == ([("a", 0, stopped)], stopped)


@pytest.mark.parametrize("slow_stop", [0, 50])
@in_virtual_time
async def test_a_standby_leads_at_once_when_the_leader_has_stopped_its_work_and_released_the_lease(
    slow_stop: float,
) -> None:
    diary, server = Diary(), LeaseServer()
    async with asyncio.TaskGroup() as group:
        group.create_task(Candidate(server, diary, "a").lead(until=5, slow_stop=slow_stop))
        group.create_task(Candidate(server, diary, "b").lead(until=80))
    released = [(time, spec["leaseDurationSeconds"]) for time, spec in server.writes if not spec["holderIdentity"]]
    end = 5 + slow_stop
    assert released == [(end, 1), (80, 1)]
    assert diary.terms == [("a", 0, end), ("b", end + 1, 80)]
    assert (server.spec["leaseTransitions"], diary.aborted) == (1, [])


@in_virtual_time
async def test_a_leader_continues_when_somebody_labels_its_lease() -> None:
    server, diary = LeaseServer(), Diary()
    async with asyncio.TaskGroup() as group:
        group.create_task(Candidate(server, diary, "a").lead(until=60))
        await asyncio.sleep(3)
        lease = server.get(LEASE, KEY)
        server.put({**lease, "metadata": {**lease["metadata"], "labels": {"team": "net"}}})
    assert diary.terms == [("a", 0, 60)]
    assert server.get(LEASE, KEY)["metadata"]["labels"] == {"team": "net"}


@pytest.mark.parametrize("fate", [Fate(answer_lost=True), Fate(back=60)])
@in_virtual_time
async def test_a_process_recognizes_its_own_lease_even_if_the_creation_got_no_answer(fate: Fate) -> None:
    server, diary = LeaseServer(), Diary()
    await Candidate(server, diary, "a", (Fate(), fate)).lead(until=60)
    assert diary.terms[0][1] <= 7


@pytest.mark.parametrize(
    ("fates", "until", "terms"),
    [((Fate(), Fate(back=4)), 1, []), ((Fate(), Fate(), Fate(there=3), Fate(there=2)), 3, [("a", 0, 3)])],
    ids=["a claim", "a renewal"],
)
@in_virtual_time
async def test_the_lease_is_free_after_a_shutdown_even_if_a_request_was_under_way(
    fates: tuple[Fate, ...], until: float, terms: list[tuple[str, float, float]]
) -> None:
    server, diary = LeaseServer(), Diary()
    await Candidate(server, diary, "a", fates).lead(until)
    await asyncio.sleep(20)
    assert (diary.terms, server.spec["holderIdentity"]) == (terms, "")


@in_virtual_time
async def test_the_log_tells_who_leads_and_who_stands_by(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tsoperator")
    server, diary = LeaseServer(), Diary()
    async with asyncio.TaskGroup() as group:
        group.create_task(Candidate(server, diary, "a").lead(until=20))
        await asyncio.sleep(1)
        group.create_task(Candidate(server, diary, "b").lead(until=40))
        await asyncio.sleep(0.5)
        group.create_task(Candidate(server, diary, "c").lead(until=30))
    told = [("leading", "a"), ("standing by", "a"), ("standing by", "a"), ("leading", "b"), ("standing by", "b")]
    assert caplog.messages == [f"{what}: {who} holds the Lease tailscale/operator" for what, who in told]


@in_virtual_time
async def test_a_shutdown_ends_soon_even_if_the_api_server_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    candidate = Candidate(LeaseServer(), Diary(), "a")
    async with asyncio.TaskGroup() as group:
        group.create_task(candidate.lead(until=3))
        await asyncio.sleep(1)
        candidate.link.hangs = True
    assert now() == 6.5
    assert "stays held until it expires" in caplog.messages[-1]


@pytest.mark.parametrize("error", [None, ValueError("broken")], ids=str)
@in_virtual_time
async def test_a_leader_whose_work_ends_releases_the_lease_and_raises_the_error_of_the_work(
    error: Exception | None,
) -> None:
    server, diary = LeaseServer(), Diary()
    elector = diary.elector(Link(server), Process("a"))

    async def work() -> None:
        await diary.work("a", seconds=3)()
        if error:
            raise error

    with pytest.raises(ValueError, match="broken") if error else contextlib.nullcontext():
        await elector.lead(work)
    await asyncio.sleep(60)
    assert (diary.terms, server.spec["holderIdentity"], diary.aborted) == ([("a", 0, 3)], "", [])


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        (itertools.repeat(Denied(403, "Forbidden", "leases is forbidden")), "Denied: leases is forbidden"),
        ((Unreachable(f"request {number} lost") for number in itertools.count(1)), "Unreachable: request 1 lost"),
    ],
    ids=["refused", "away"],
)
@in_virtual_time
async def test_an_error_that_keeps_a_process_from_the_lease_is_logged_only_once(
    caplog: pytest.LogCaptureFixture, errors: Iterator[Exception], told: str
) -> None:
    class Failing(Link):
        async def _call(self, act: object) -> dict[str, object]:
            raise next(errors)

    elector = Diary().elector(Failing(LeaseServer()), Process("a"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(elector.lead(Diary().work("a")), 60)
    assert warnings(caplog) == [f"tailscale/operator: {told}"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@in_virtual_time
async def test_an_error_that_comes_back_after_a_renewal_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    candidate = Candidate(LeaseServer(), Diary(), "a")
    async with asyncio.TaskGroup() as group:
        group.create_task(candidate.lead(until=30))
        for away in (True, False, True, False):
            await asyncio.sleep(5)
            candidate.link.away = away
    assert warnings(caplog) == ["tailscale/operator: Unreachable: request lost"] * 2


@pytest.mark.parametrize("seconds", [(15, 10, 2, 10), (15, 9, 9, 10), (15, 9, 0, 10), (5, 4, 2, 10)])
def test_election_times_with_which_two_processes_could_lead_at_once_are_refused(
    seconds: tuple[float, float, float, int],
) -> None:
    with pytest.raises(ValueError, match="a lease needs"):
        Timing(*seconds)


async def lost(leading: Awaitable[None]) -> str:
    """Wait for the end of *leading*. Return the message of the loss of leadership, empty if it wasn't lost."""
    try:
        await leading
    except LeadershipLost as error:
        return str(error)
    return ""


class Life(NamedTuple):
    """The life of a candidate: its requests' *fates*, how long its *work* and its *stop* take, and if it *crashes*."""

    fates: list[Fate]
    work: float
    stop: float
    crashes: bool


SECONDS = st.floats(0, 14).map(lambda seconds: round(seconds, 1))
FATES = st.one_of(
    st.just(Fate()),
    st.tuples(SECONDS, SECONDS).map(lambda ways: Fate(*ways)),
    st.just(Fate(request_lost=True)),
    SECONDS.map(lambda there: Fate(there, answer_lost=True)),
)
LIVES = st.builds(Life, st.lists(FATES, max_size=25), st.floats(1, 60), st.floats(0, 0.4), st.booleans())


async def live(server: LeaseServer, diary: Diary, number: int, life: Life) -> None:
    """Live as candidate *number*: stand for election, and again after each loss of the Lease, until the crash."""
    link = Link(server, life.fates)
    seconds = life.work
    for term in range(1000):
        name = f"{number}-{term}"
        with contextlib.suppress(LeadershipLost):
            await diary.elector(link, Process(name)).lead(crashing(diary.work(name, seconds, life.stop), link, life))
        if link.away:
            return
        seconds = 1e6


def crashing(work: Callable[[], Awaitable[None]], link: Link, life: Life) -> Callable[[], Awaitable[None]]:
    async def work_and_crash() -> None:
        try:
            await work()
        finally:
            link.away = life.crashes

    return work_and_crash


@pytest.mark.timeout(600)  # for the 2,000 examples of make soak
@given(st.lists(LIVES, min_size=2, max_size=3))
@in_virtual_time
async def test_two_processes_never_lead_at_once_and_one_process_leads_in_the_end(lives: list[Life]) -> None:
    diary = Diary()

    server = LeaseServer()
    steady = Life([], 1e6, 0, crashes=False)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(310), asyncio.TaskGroup() as group:
            for number, life in enumerate([*lives, steady]):
                group.create_task(live(server, diary, number, life))
            await asyncio.sleep(300)
            assert len(diary.leading) == 1
    assert diary.aborted == []
