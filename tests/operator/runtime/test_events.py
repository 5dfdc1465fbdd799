import asyncio
import logging
from typing import Any, Literal

import pytest
from tsoperator.api.objects import EVENT, Key, Object, Resource
from tsoperator.kube.errors import AlreadyExists, Denied, KubeError, NotFound, Unreachable
from tsoperator.runtime.events import CALL_TIMEOUT, MESSAGE_LIMIT, EventRecorder, Quiet

from tests.support.virtual_time import in_virtual_time, now, run, wall

INGRESS: Object = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "Ingress",
    "metadata": {"namespace": "web", "name": "db", "uid": "u-1", "resourceVersion": "7"},
}
CONNECTOR: Object = {"apiVersion": "tailscale.com/v1alpha1", "kind": "Connector", "metadata": {"name": "exit"}}
WARNING_ON_INGRESS: Object = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"namespace": "web"},
    "involvedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", **INGRESS["metadata"]},
    "type": "Warning",
    "reason": "NoValidBackends",
    "message": "no valid backends",
    "source": {"component": "tailscale-operator"},
    "reportingComponent": "tailscale-operator",
    "reportingInstance": "operator-0",
    "count": 1,
    "firstTimestamp": "2030-01-01T00:00:00Z",
    "lastTimestamp": "2030-01-01T00:00:00Z",
}
MINUTE, HOUR = 60.0, 3600.0


class EventServer:
    """An API server that stores Events and counts the writes."""

    def __init__(self, quiet: Quiet | None = None) -> None:
        self.events: dict[Key, Object] = {}
        self.writes = 0
        self.error: KubeError | None = None
        self.hangs = False
        self._quiet = quiet
        self.restart()

    def restart(self) -> None:
        self._recorder = EventRecorder(self, instance="operator-0", quiet=self._quiet, clock=now, wall=wall)

    async def tell(
        self,
        obj: Object = INGRESS,
        kind: Literal["Normal", "Warning"] = "Warning",
        reason: str = "NoValidBackends",
        message: str = "no valid backends",
        once: bool = False,
    ) -> None:
        await self._recorder.event(obj, kind, reason, message, once=once)

    async def repeat(self, seconds: float) -> None:
        """Report the same Event about the Ingress each minute, for *seconds* in total."""
        end = now() + seconds
        while now() <= end:
            await self.tell()
            await asyncio.sleep(MINUTE)

    @property
    def event(self) -> Object:
        (event,) = self.events.values()
        return event

    async def get(self, resource: Resource, key: Key) -> Object:
        assert resource == EVENT
        return self.events[key]

    async def create(self, resource: Resource, obj: Object) -> Object:
        await self._request(resource)
        key = Key(obj["metadata"]["namespace"], obj["metadata"]["name"])
        if key in self.events:
            raise AlreadyExists(409, "AlreadyExists", "there is one")
        self.events[key] = obj
        return obj

    async def patch(self, resource: Resource, key: Key, patch: Object) -> Object:
        await self._request(resource)
        if key not in self.events:
            raise NotFound(404, "NotFound", "no such event")
        self.events[key] = {**self.events[key], **patch}
        return self.events[key]

    async def _request(self, resource: Resource) -> None:
        assert resource == EVENT
        if self.hangs:
            await asyncio.sleep(1e6)
        if self.error is not None:
            raise self.error
        self.writes += 1


def test_an_event_is_in_the_namespace_of_its_object_or_else_in_the_namespace_default() -> None:
    server, cluster = EventServer(), EventServer()
    run(server.tell())
    assert server.event["metadata"].pop("name").startswith("db.")
    assert server.event == WARNING_ON_INGRESS
    run(cluster.tell(CONNECTOR))
    assert cluster.event["metadata"]["namespace"] == "default"
    assert "namespace" not in cluster.event["involvedObject"]


@in_virtual_time
async def test_the_count_of_a_repeated_event_is_written_less_and_less_often() -> None:
    server, counts = EventServer(), []
    for _ in range(5):
        await server.repeat(59 * MINUTE)
        counts.append(server.writes)
    assert server.event["count"] == 271
    assert server.event["lastTimestamp"] == "2030-01-01T04:30:00Z"
    assert counts == [3, 5, 7, 9, 11]  # at minutes 0, 10, 30, 60, 90 …


@in_virtual_time
async def test_an_event_that_returns_after_hours_is_written_as_rarely_as_an_event_that_continues() -> None:
    server = EventServer()
    await server.repeat(MINUTE)
    await asyncio.sleep(5 * HOUR)
    await server.repeat(9 * MINUTE)
    assert (server.writes, server.event["count"]) == (2, 3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "Normal"),
        ("reason", "S"),
        ("message", "n"),
        ("obj", {**INGRESS, "metadata": {**INGRESS["metadata"], "uid": "u-9"}}),
    ],
)
@in_virtual_time
async def test_an_event_that_differs_from_an_earlier_event_in_one_field_is_written_at_once(
    field: str, value: Any
) -> None:
    server = EventServer()
    await server.tell()
    await server.tell(**{field: value})
    assert len(server.events) == 2


@in_virtual_time
async def test_the_count_of_an_event_goes_on_after_a_restart_and_an_event_that_was_deleted_is_created_again() -> None:
    server = EventServer()
    await server.repeat(0)
    server.restart()
    await server.repeat(0)
    times = [f"2030-01-01T00:0{minute}:00Z" for minute in range(2)]
    assert [server.event[name] for name in ("count", "firstTimestamp", "lastTimestamp")] == [2, *times]
    await asyncio.sleep(HOUR)
    await server.repeat(0)
    assert server.event["count"] == 3
    server.events.clear()
    await asyncio.sleep(HOUR)
    await server.repeat(0)
    assert server.event["count"] == 4


@in_virtual_time
async def test_an_event_to_be_written_once_is_never_updated() -> None:
    server = EventServer()
    for is_later_process in (False, False, True):
        if is_later_process:
            server.restart()
        await server.tell(once=True)
        await asyncio.sleep(HOUR)
    assert (server.event["count"], server.event["lastTimestamp"]) == (1, "2030-01-01T00:00:00Z")


@in_virtual_time
async def test_an_event_that_several_tasks_report_at_the_same_time_is_written_once() -> None:
    server = EventServer()
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(server.repeat(0))
    assert server.writes == 1


@in_virtual_time
async def test_a_failed_write_of_an_event_is_logged_once_until_a_write_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = EventServer()
    for message in "ab":
        for error in (Denied(403, "Forbidden", "the namespace is being terminated"), Unreachable("refused"), None):
            server.error = error
            await server.tell(message=message)
    assert [event["count"] for event in server.events.values()] == [1, 1]
    assert [record.levelno >= logging.WARNING for record in caplog.records] == [True, True]


@in_virtual_time
async def test_the_reporter_of_an_event_waits_only_a_limited_time_for_a_hanging_api_server() -> None:
    server = EventServer()
    server.hangs = True
    await server.tell()
    assert now() == CALL_TIMEOUT


@in_virtual_time
async def test_only_the_most_recently_reported_events_are_remembered() -> None:
    server, writes = EventServer(Quiet(memory=2)), []
    for message in ("a", "b", "a", "c", "a", "b"):
        await server.tell(message=message)
        writes.append(server.writes)
    # At the end, the recorder has forgotten b: it tries to create b, finds b, and raises its count.
    assert writes == [1, 2, 2, 3, 3, 5]


def test_an_event_is_valid_even_if_its_message_or_the_name_of_its_object_is_too_long() -> None:
    server = EventServer()
    name = "a" * 235 + "." + "b" * 17
    run(server.tell({**INGRESS, "metadata": {**INGRESS["metadata"], "name": name}}, message="x" * 5000))
    assert server.event["message"] == "x" * (MESSAGE_LIMIT - 1) + "…"
    event_name = server.event["metadata"]["name"]
    assert len(event_name) <= 253
    assert ".." not in event_name
