"""Events that report requests to a recorder: their contents, and the recorder that gets them."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tsoperator.apiproxy.errors import RecordingFailed
from tsoperator.apiproxy.head import parse_request
from tsoperator.apiproxy.localapi import LocalApi
from tsoperator.apiproxy.recording.dialling import RecorderLimits
from tsoperator.apiproxy.recording.events import EventsUnsupported, RequestEvent, send_event
from tsoperator.apiproxy.recording.requestinfo import request_info
from tsoperator.apiproxy.recording.source import SourceDevice

from tests.support.localapi import LocalApiWithCallers
from tests.support.recorder import Recorder

ADDRESSES = ["100.64.0.9:80", "[fd7a:115c:a1e0::9]:80"]
ALICE = SourceDevice("laptop.tail1234.ts.net", "nStable", owner_id=7, profile_id=8, login="alice@example.org")
CI = SourceDevice("ci.tail1234.ts.net", "nOther", tags=("tag:ci",), profile_id=9, login="tagged-devices")


def event(target: str = "/api/v1/pods", body: bytes = b"", device: SourceDevice = ALICE) -> RequestEvent:
    raw = f"POST {target} HTTP/1.1\r\nHost: k8s\r\nUser-Agent: kubectl/v1.33\r\n\r\n"
    return RequestEvent(parse_request(raw.encode()), body, device, 1700000000)


@pytest.mark.parametrize(
    ("device", "source"),
    [
        (ALICE, {"node": ALICE.name, "nodeID": "nStable", "nodeUserID": 8, "nodeUser": "alice@example.org"}),
        (CI, {"node": CI.name, "nodeID": "nOther", "nodeTags": ["tag:ci"]}),
    ],
)
def test_an_event_describes_the_request_and_the_device_that_sent_it(
    device: SourceDevice, source: dict[str, object]
) -> None:
    found = b"".join(event("/api/v1/pods?dryRun=All&a=1&a=%202", b'{"foo":"bar"}', device).pieces())
    assert found.endswith(b"}\n")
    assert [*json.loads(found).items()] == [
        ("type", "kubernetes-api-request"),
        ("id", ""),
        ("timestamp", 1700000000),
        ("userAgent", "kubectl/v1.33"),
        (
            "request",
            {
                "method": "POST",
                "path": "/api/v1/pods?dryRun=All&a=1&a=%202",
                "body": base64.b64encode(b'{"foo":"bar"}').decode(),
                "queryParameters": {"dryRun": ["All"], "a": ["1", " 2"]},
            },
        ),
        ("kubernetes", {**request_info("POST", "/api/v1/pods").as_event(), "Parts": ["pods"]}),
        ("source", source),
        ("destination", {"node": "", "nodeID": ""}),
    ]


@pytest.mark.parametrize("size", [0, 1, 48 << 10, (48 << 10) + 1, 100_000])
def test_the_content_length_of_an_event_is_the_number_of_bytes_that_are_sent(size: int) -> None:
    made = event(body=bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    assert sum(map(len, made.pieces())) == len(made)


class Deliveries:
    """Two recorders in the tailnet. `send` sends an event to the first recorder at *addresses* that accepts it."""

    def __init__(self, tailscaled: LocalApiWithCallers, socket: Path) -> None:
        self.tailscaled = tailscaled
        self.recorders = [Recorder(), Recorder()]
        self.limits = RecorderLimits(probe=0.5)
        self._dial = LocalApi(socket).dial

    async def send(self, body: bytes = b"", addresses: list[str] = ADDRESSES) -> None:
        await send_event(event(body=body), self._dial, addresses, self.limits)


@pytest.fixture
async def tailnet(tmp_path: Path) -> AsyncIterator[Deliveries]:
    deliveries = Deliveries(LocalApiWithCallers(), tmp_path / "tailscaled.sock")
    async with deliveries.tailscaled.listening(tmp_path / "tailscaled.sock"), AsyncExitStack() as stack:
        for address, recorder in zip(ADDRESSES, deliveries.recorders, strict=True):
            await stack.enter_async_context(recorder.listening())
            deliveries.tailscaled.devices[address] = recorder.port
        yield deliveries


async def test_an_event_about_a_request_is_sent_only_to_the_first_recorder(tailnet: Deliveries) -> None:
    body = b"x" * 300_000
    await tailnet.send(body)
    first, second = tailnet.recorders
    assert base64.b64decode(json.loads(first.events[0])["request"]["body"]) == body
    assert (first.requests, second.requests) == (["HEAD /v2/event", "POST /v2/event"], [])
    assert tailnet.tailscaled.dialled == ADDRESSES[:1]


FAULTS = {
    "it takes no events": Recorder(events_status=404),
    "it refuses": Recorder(events_status=500),
    "it hangs": Recorder(hangs=True),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_an_event_about_a_request_is_sent_to_the_next_recorder_if_the_first_recorder_fails(
    tailnet: Deliveries, fault: Recorder
) -> None:
    tailnet.recorders[0].events_status, tailnet.recorders[0].hangs = fault.events_status, fault.hangs
    await tailnet.send()
    assert len(tailnet.recorders[1].events) == 1


@pytest.mark.parametrize(
    ("statuses", "error", "words"),
    [
        ((404, 404), EventsUnsupported, f"{ADDRESSES[0]}: it takes no events; "),
        ((404, 500), RecordingFailed, "it answers with status 500: the disk is full"),
        ((500, 404), RecordingFailed, "it answers with status 500: the disk is full"),
    ],
)
async def test_the_error_names_the_reasons_of_all_recorders_that_took_no_event(
    tailnet: Deliveries, statuses: tuple[int, int], error: type[RecordingFailed], words: str
) -> None:
    for recorder, status in zip(tailnet.recorders, statuses, strict=True):
        recorder.events_status = status
    with pytest.raises(RecordingFailed) as caught:
        await tailnet.send()
    assert (caught.type, words in str(caught.value)) == (error, True)


async def test_an_event_about_a_request_cannot_be_sent_without_a_recorder_that_answers(tailnet: Deliveries) -> None:
    with pytest.raises(RecordingFailed, match="no recorder"):
        await tailnet.send(addresses=[])
    tailnet.recorders[0].hangs = tailnet.recorders[1].hangs = True
    with pytest.raises(RecordingFailed, match=r"within 0\.5 s; .*within 0\.5 s"):
        await tailnet.send()
