"""The lines of the recording of a session."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from tsoperator.apiproxy.recording.cast import DEFAULT_SIZE, NO_TERMINAL, Cast
from tsoperator.apiproxy.recording.frames import Size
from tsoperator.apiproxy.recording.requestinfo import SessionRequest
from tsoperator.apiproxy.recording.source import SourceDevice

from tests.operator.apiproxy.recording.reading import splits

USERS = SourceDevice("laptop.tail1234.ts.net", "nStable", owner_id=7, profile_id=8, login="alice@example.org")
TAGGED = SourceDevice("ci.tail1234.ts.net", "nOther", tags=("tag:ci",), owner_id=7)
SHELL = SessionRequest("exec", "default", "web", "main", "ls -l", True)
START = 1700000000
TEXT = "naïve 🐚 é\0<&>\x1b[0m".encode() + b"\xff\xc3" + "é".encode()


@pytest.mark.parametrize(
    ("device", "session", "differs"),
    [
        (USERS, SHELL, {"command": "ls -l", "srcNodeUserID": 7, "srcNodeUser": "alice@example.org"}),
        (
            TAGGED,
            SessionRequest("attach", "default", "web"),
            {
                "srcNode": "ci.tail1234.ts.net",
                "srcNodeID": "nOther",
                "srcNodeTags": ["tag:ci"],
                "kubernetes": {"PodName": "web", "Namespace": "default", "Container": "", "SessionType": "attach"},
            },
        ),
    ],
)
def test_the_header_of_a_recording_names_the_device_and_the_pod(
    device: SourceDevice, session: SessionRequest, differs: dict[str, object]
) -> None:
    line = Cast(device, session, START).header(DEFAULT_SIZE)
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "version": 2,
        "width": 80,
        "height": 24,
        "timestamp": START,
        "srcNode": "laptop.tail1234.ts.net",
        "srcNodeID": "nStable",
        "env": None,
        "sshUser": "",
        "localUser": "",
        "connectionID": "",
        "kubernetes": {"PodName": "web", "Namespace": "default", "Container": "main", "SessionType": "exec"},
        **differs,
    }


def test_the_keys_in_the_header_of_a_recording_have_a_fixed_order() -> None:
    keys = "version width height timestamp command srcNode srcNodeID srcNodeUserID srcNodeUser env sshUser localUser"
    header = json.loads(Cast(USERS, SHELL, START).header(NO_TERMINAL))
    assert [*header] == [*keys.split(), "connectionID", "kubernetes"]


def test_each_output_and_each_new_terminal_size_becomes_a_line_of_a_recording() -> None:
    cast = Cast(USERS, SHELL, START)
    assert cast.output(0.5, 1, b"\7<a>") == b'[0.5,"o","\\u0007<a>"]\n'
    assert cast.output(0.5, 1, b"") == b""
    assert cast.resize(1.25, Size(10, 20)) == b'[1.25,"r","10x20"]\n'  # the width comes first
    assert cast.end(2.0) == b""


def test_an_incomplete_character_at_the_end_of_the_output_is_recorded_as_a_replacement_character() -> None:
    cast = Cast(USERS, SHELL, START)
    assert cast.output(0.5, 1, b"\xf0\x9f") == b""
    assert json.loads(cast.end(2.5)) == [2.5, "o", "\ufffd"]


@given(splits(TEXT))
def test_a_recording_has_whole_characters_even_if_their_bytes_come_in_several_pieces(pieces: Sequence[bytes]) -> None:
    cast, lines = Cast(USERS, SHELL, START), b""
    for piece in pieces:
        lines += cast.output(0.5, 1, piece) + cast.output(0.5, 2, b"\xc3")  # another stream has characters of its own
    found = [json.loads(line)[2] for line in (lines + cast.end(1)).splitlines()]
    assert "".join(found).replace("\ufffd", "") == TEXT.decode("utf-8", "ignore")
    assert "".join(found).count("\ufffd") == 2 + len(pieces)
