import asyncio
import contextlib
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.objects import LEASE, Object
from tsoperator.runtime.holder import LeaderPlace, Process, noted, own_note, proof
from tsoperator.runtime.leader import LeadershipLost

from tests.operator.runtime.candidates import Candidate, Diary
from tests.operator.runtime.lease_server import KEY, Fate, LeaseServer, OperatorPod
from tests.support.virtual_time import in_virtual_time, now

NOTE = LeaderPlace("a_1", "a", "uid-a", "containerd://a1", 10)
WITHOUT_SECONDS = LeaderPlace("a_1", "a", "uid-a", "containerd://a1", 0)
RENEWED = "2030-01-01T00:00:04.700000Z"
HAS_ENDED = "its container has ended"


def pod(*statuses: Object, uid: str = "uid-a", **status: Any) -> Object:
    return {"metadata": {"name": "a", "uid": uid}, "status": {"containerStatuses": [*statuses], **status}}


def running(container: str, name: str = "operator") -> Object:
    return {"name": name, "containerID": container, "state": {"running": {"startedAt": "2030-01-01T00:00:00Z"}}}


def end(container: str | None = NOTE.container, at: str | None = "2030-01-01T00:00:05Z") -> Object:
    """Return the state of the container with the ID *container*, which ended at the time *at*."""
    return {"terminated": {"exitCode": 137, "containerID": container, "finishedAt": at}}


PODS: dict[str, tuple[Object, str]] = {
    "ended": (pod({"name": "operator", "state": end()}), HAS_ENDED),
    "restarted": (pod({**running("containerd://a2"), "lastState": end()}), HAS_ENDED),
    "waits for its restart": (pod({"name": "operator", "state": {"waiting": {}}, "lastState": end()}), HAS_ENDED),
    "with a sidecar": (pod(running("containerd://s"), {"name": "operator", "state": end()}), HAS_ENDED),
    "ended as it renewed": (pod({"name": "operator", "state": end(at="2030-01-01T00:00:04Z")}), HAS_ENDED),
    "ended before it renewed": (pod({"name": "operator", "state": end(at="2030-01-01T00:00:03Z")}), ""),
    "ended at an unknown time": (pod({"name": "operator", "state": end(at=None)}), ""),
    "another container ended": (pod({**running("containerd://a2"), "lastState": end("containerd://a0")}), ""),
    "the kubelet lost it": (pod({"name": "operator", "state": end(None)}), ""),
    "runs": (pod(running(NOTE.container)), ""),
    "its node is lost": (pod(phase="Failed", reason="NodeLost"), ""),
    "leaves without a status": ({"metadata": {"name": "a", "uid": "uid-a", "deletionTimestamp": RENEWED}}, ""),
    "another Pod of its name": (pod({"name": "operator", "state": end()}, uid="uid-2"), ""),
}


@pytest.mark.parametrize(("found", "why"), PODS.values(), ids=PODS)
def test_a_leader_has_ended_if_the_kubelet_reports_the_end_of_its_container(found: Object, why: str) -> None:
    assert proof(NOTE, RENEWED, found, 0) == why


@pytest.mark.parametrize(
    ("gone_seconds", "gone_for", "found", "why"),
    [
        (10, 10, None, "its Pod has been gone for 10 s"),
        (10, 10, pod(running("containerd://b"), uid="uid-2"), "its Pod has been gone for 10 s"),
        (10, 9.9, None, ""),
        (0, 1000, None, ""),
        (10, 10, pod(running(NOTE.container)), ""),
    ],
    ids=["gone", "replaced", "gone for less", "its token may outlast the Pod", "there"],
)
def test_a_leader_has_ended_if_its_pod_has_been_gone_for_as_many_seconds_as_the_lease_says(
    gone_seconds: int, gone_for: float, found: Object | None, why: str
) -> None:
    note = LeaderPlace("a_1", "a", "uid-a", "containerd://a1", gone_seconds)
    assert proof(note, RENEWED, found, gone_for) == why


def lease(note: LeaderPlace, holder: str = "a_1", **more: str) -> Object:
    return {"metadata": {"annotations": {**note.annotations(), **more}}, "spec": {"holderIdentity": holder}}


LEASES: dict[str, tuple[Object, LeaderPlace | None]] = {
    "whole": (lease(NOTE), NOTE),
    "not bound": (lease(WITHOUT_SECONDS), WITHOUT_SECONDS),
    "seconds that are none": (lease(NOTE, **{"tailscale.com/leader-gone-seconds": "soon"}), WITHOUT_SECONDS),
    "half": (lease(NOTE, **{"tailscale.com/leader-container": ""}), None),
    "of a holder before": (lease(NOTE, holder="b_1"), None),
    "no note": ({"metadata": {}, "spec": {"holderIdentity": "a_1"}}, None),
    "no record": ({"metadata": {}}, None),
}


@pytest.mark.parametrize(("found", "note"), LEASES.values(), ids=LEASES)
def test_the_annotations_about_the_leaders_pod_are_valid_only_for_the_holder_that_wrote_them(
    found: Object, note: LeaderPlace | None
) -> None:
    assert noted(found) == note


@pytest.mark.parametrize(
    ("bound_to", "found", "note"),
    [
        ("uid-a", pod(running("containerd://a1")), NOTE),
        ("", pod(running("containerd://a1")), WITHOUT_SECONDS),
        ("uid-0", pod(running("containerd://a1")), None),
        ("uid-a", pod(running("containerd://s", "sidecar")), None),
        ("uid-a", pod({"name": "operator", "containerID": "containerd://a1", "state": end()}), None),
        ("uid-a", pod({"name": "operator", "state": {"waiting": {}}}), None),
        ("uid-a", {"metadata": {"uid": "uid-a"}}, None),
    ],
    ids=["runs", "token of no Pod", "token of another Pod", "a sidecar", "status of before", "waiting", "no status"],
)
def test_a_process_knows_its_container_only_if_the_status_of_its_own_pod_shows_the_container(
    bound_to: str, found: Object, note: LeaderPlace | None
) -> None:
    assert own_note(Process("a_1", "a", bound_to), found, 10) == note


class Leader:
    """A process in a container of a Pod, which leads or stands by."""

    def __init__(
        self, server: LeaseServer, diary: Diary, name: str, place: OperatorPod | None, fates: list[Fate] | None = None
    ) -> None:
        self._candidate = Candidate(server, diary, name, fates or (), place)
        self.link = self._candidate.link
        self._task = asyncio.ensure_future(self._candidate.lead(until=1e6))

    async def kill(self) -> None:
        """Kill the process, which sends nothing from now on. Do nothing if it has ended already."""
        self.link.hangs = True
        await self.stop()

    async def stop(self) -> None:
        """Stop the process, and wait until it has ended."""
        self._task.cancel()
        await self.ended()

    async def ended(self, seconds: float | None = None) -> None:
        """Wait until the process has ended by itself, for *seconds* at most."""
        await asyncio.wait([self._task], timeout=seconds)
        if self._task.done() and not self._task.cancelled() and (error := self._task.exception()):
            assert isinstance(error, LeadershipLost), error


class Scene:
    """A leader in one Pod, and a standby in another Pod. The standby begins 1 s after the leader."""

    def __init__(self) -> None:
        self.server, self.diary = LeaseServer(), Diary()

    async def begin(self, **place: Any) -> None:
        await self.begin_in(OperatorPod(self.server, "a", **place))

    async def begin_in(self, pod: OperatorPod) -> None:
        self.pod = pod
        self.leader = Leader(self.server, self.diary, "a", self.pod)
        await asyncio.sleep(1)
        self.standby = Leader(self.server, self.diary, "b", OperatorPod(self.server, "b", skew=-3000))

    async def taken_over(self) -> float:
        """Return the time at which the standby began to lead."""
        await asyncio.sleep(60)
        await self.standby.stop()
        return {name: start for name, start, _ in self.diary.terms}["b"]


@pytest.mark.parametrize(
    ("lag", "restarts", "taken"), [(0, False, 9), (0, True, 9), (2, False, 10), (5, True, 13)], ids=str
)
@pytest.mark.parametrize("skew", [0, 3000, -3000])
@in_virtual_time
async def test_a_standby_leads_as_soon_as_the_status_of_the_leaders_pod_shows_that_the_leader_has_ended(
    lag: float, restarts: bool, taken: float, skew: float
) -> None:
    """Kill a leader whose latest renewal was at second 6; the standby has seen this renewal at second 7."""
    scene = Scene()
    await scene.begin(skew=skew)
    await asyncio.sleep(6.5)
    scene.pod.lag = lag
    scene.pod.end()
    await scene.leader.kill()
    if restarts:
        scene.pod.start()
    assert await scene.taken_over() == taken


@in_virtual_time
async def test_an_annotation_about_the_earlier_container_does_not_prove_the_end_of_the_leader() -> None:
    """Use a kubelet that reports late, so that a process in the second container believes it is in the first one."""
    scene = Scene()
    place = OperatorPod(scene.server, "a", lag=10)
    await asyncio.sleep(11)
    place.end()
    place.start()
    await scene.begin_in(place)
    await asyncio.sleep(12)
    assert noted(scene.server.get(LEASE, KEY)) is not None
    scene.leader.link.hangs = True
    await asyncio.sleep(5)
    scene.leader.link.hangs = False
    await asyncio.sleep(60)
    await scene.leader.stop()
    assert scene.diary.terms == [("a", 11, 89)]


@pytest.mark.parametrize(
    ("bound", "goes_on", "taken"),
    [(True, False, 19), (True, True, 29), (False, False, 22), (False, True, None)],
    ids=["killed", "runs on", "killed, with a token that stays", "runs on, with a token that stays"],
)
@in_virtual_time
async def test_a_pod_deleted_by_force_proves_the_end_of_a_leader_only_if_the_leaders_token_is_bound_to_the_pod(
    bound: bool, goes_on: bool, taken: float | None
) -> None:
    """Delete the Pod at second 6.5, so that the latest renewal is that of second 6.

    If the process runs on, the latest renewal is at second 16, because the API server accepts its token until 16.5.
    """
    scene = Scene()
    await scene.begin(bound=bound)
    await asyncio.sleep(5.5)
    scene.pod.delete()
    if not goes_on:
        await scene.leader.kill()
    if taken is None:
        await asyncio.sleep(100)
        assert scene.diary.leading == ["a"]
    else:
        assert await scene.taken_over() == taken
    await scene.leader.stop()


@in_virtual_time
async def test_a_pod_of_the_leader_that_reappears_counts_as_never_gone() -> None:
    """Bring a deleted Pod back, as a restore of the API server's data from a backup does."""
    scene = Scene()
    await scene.begin()
    await asyncio.sleep(5.5)
    stored = scene.server.pods["a"]
    await scene.leader.kill()
    scene.pod.delete()
    await asyncio.sleep(5)
    scene.server.pods["a"] = stored
    await asyncio.sleep(1)
    scene.pod.delete()
    assert await scene.taken_over() == 22


@in_virtual_time
async def test_a_new_process_counts_the_seconds_without_the_leaders_pod_from_its_first_read_of_the_lease() -> None:
    """End the leader and its Pod before the new process begins, as when somebody uninstalls the chart."""
    scene = Scene()
    await scene.begin()
    await asyncio.sleep(6)
    scene.pod.delete()
    await scene.leader.kill()
    await scene.standby.kill()
    later = Candidate(scene.server, scene.diary, "c", pod=OperatorPod(scene.server, "c"))
    start = now()
    await later.elector.look()
    await asyncio.sleep(4.5)
    await later.lead(until=start + 20)
    (taken,) = [start for name, start, _ in scene.diary.terms if name == "c"]
    assert taken - start == pytest.approx(10, abs=0.05)


@in_virtual_time
async def test_a_standby_that_cannot_read_the_pod_of_the_holder_waits_until_the_lease_runs_out() -> None:
    scene = Scene()
    await scene.begin()
    scene.standby.link.hides_pods = True
    await asyncio.sleep(6.5)
    scene.pod.end()
    await scene.leader.kill()
    assert await scene.taken_over() == pytest.approx(7 + 15, abs=4)


@in_virtual_time
async def test_a_standby_reads_the_pod_of_the_holder_only_if_a_renewal_is_late() -> None:
    scene = Scene()
    await scene.begin()
    await asyncio.sleep(60)
    assert scene.server.pods_read == [0]  # only the leader has read a Pod, which is its own
    scene.leader.link.hangs = True
    await asyncio.sleep(4)
    scene.leader.link.hangs = False
    await asyncio.sleep(60)
    assert scene.diary.leading == ["a"]
    assert 1 <= len(scene.server.pods_read[1:]) <= 5
    await scene.leader.stop()
    await scene.standby.stop()


@in_virtual_time
async def test_a_new_leader_replaces_only_the_annotations_of_an_earlier_leader_on_the_lease() -> None:
    scene = Scene()
    scene.server.put_record("")
    stored = scene.server.get(LEASE, KEY)
    before = {"team": "net", **NOTE.annotations()}
    scene.server.put({**stored, "metadata": {**stored["metadata"], "annotations": before}})
    await scene.begin(lag=3)
    assert annotations_of(scene) == {"team": "net"}
    await asyncio.sleep(8)
    assert annotations_of(scene) == {
        "team": "net",
        "tailscale.com/leader": "a",
        "tailscale.com/leader-pod": "a",
        "tailscale.com/leader-pod-uid": scene.pod.uid,
        "tailscale.com/leader-container": f"containerd://{scene.pod.uid}-1",
        "tailscale.com/leader-gone-seconds": "10",
    }
    await scene.leader.stop()
    await scene.standby.stop()


def annotations_of(scene: Scene) -> dict[str, str]:
    found: dict[str, str] = scene.server.get(LEASE, KEY)["metadata"]["annotations"]
    return found


class Turn(NamedTuple):
    """The life of a process: the fates of its requests, when and how it ends, and the pause after its end.

    *lag* is the number of seconds by which the kubelet reports late.
    """

    fates: list[Fate]
    seconds: float
    end: str
    pause: float
    lag: float


class Machine(NamedTuple):
    """A machine: the processes that run on it one after another, and the seconds by which its clock is fast."""

    skew: float
    bound: bool
    turns: list[Turn]


MOMENTS = st.floats(0, 14).map(lambda seconds: round(seconds, 1))
FATES = st.one_of(
    st.just(Fate()),
    st.just(Fate()),
    st.tuples(MOMENTS, MOMENTS).map(lambda ways: Fate(*ways)),
    st.just(Fate(request_lost=True)),
    MOMENTS.map(lambda there: Fate(there, answer_lost=True)),
)
ENDS = st.sampled_from(["stopped", "killed", "hangs", "pod deleted", "pod deleted, and killed"])
TURNS = st.builds(Turn, st.lists(FATES, max_size=15), st.floats(1, 40), ENDS, st.floats(0, 12), st.floats(0, 12))
MACHINES = st.builds(
    Machine, st.sampled_from([0, 3000, -3000, 5]), st.booleans(), st.lists(TURNS, min_size=1, max_size=5)
)


async def run_machine(server: LeaseServer, diary: Diary, number: int, machine: Machine) -> None:
    """Run the processes of a machine in new containers of one Pod, or in another Pod if that Pod is gone."""
    place: OperatorPod | None = None
    for turn, (fates, seconds, end, pause, lag) in enumerate(machine.turns):
        if place is None:
            place = OperatorPod(server, f"{number}-{turn}", skew=machine.skew, lag=lag, bound=machine.bound)
        else:
            place.lag = lag
            place.start()
        process = Leader(server, diary, f"{number}-{turn}", place, fates)
        await process.ended(seconds)
        if end == "stopped":
            await process.stop()
        elif end == "killed":
            await process.kill()
        elif end == "hangs":
            process.link.hangs = True
            await process.ended(14)
            await process.kill()
        else:
            place.delete()
            if end == "pod deleted, and killed":
                await process.kill()
            elif machine.bound:
                await process.ended(30)
            await process.kill()
        place.end()
        place = place if place.name in server.pods else None
        await asyncio.sleep(pause)


@given(st.lists(MACHINES, min_size=2, max_size=3))
@in_virtual_time
async def test_two_processes_never_lead_at_once_whatever_happens_to_their_pods(machines: list[Machine]) -> None:
    server, diary = LeaseServer(), Diary()
    async with asyncio.TaskGroup() as group:
        for number, machine in enumerate(machines):
            group.create_task(run_machine(server, diary, number, machine))
    with contextlib.suppress(TimeoutError):
        await Candidate(server, diary, "last").lead(until=now() + 60)
    assert (diary.terms[-1][0], diary.aborted) == ("last", [])
