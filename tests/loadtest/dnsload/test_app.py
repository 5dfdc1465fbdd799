"""Tests of the choices that the settings imply: the engine, the sockets, the questions and the expected answers."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from dnsload.app import choose_engine, every_target, make_session, make_workload, run
from dnsload.checking import Fate
from dnsload.errors import ClientError
from dnsload.settings import Settings, read_settings

from tests.loadtest.dnsload.conducting import NAMES, records_file


def settings(*arguments: str) -> Settings:
    return read_settings(["--target", "127.0.0.1:53", *arguments])


def engine_of(*arguments: str) -> str:
    with ExitStack() as stack:
        program, words = choose_engine(settings("--name", "a.ts.net", *arguments), stack, BUILT)
        assert (program == BUILT) == words.startswith("compiled")
    return words


BUILT = Path(__file__)
"""A path that exists. It stands for the compiled client."""


@pytest.mark.parametrize(
    ("arguments", "engine"),
    [
        ("--rate 3000", "asyncio"),
        ("--rate 10..3001", "compiled, with 1 worker"),
        ("--concurrency 1", "compiled, with 1 worker"),
        ("--rate 5 --workers 2", "compiled, with 2 workers"),
        ("--tcp --rate 5000", "compiled, with 1 worker"),
        ("--tcp --rate 5000 --malformed 0.1", "asyncio"),
        ("--rate 5000 --engine asyncio", "asyncio"),
        ("--rate 5 --engine compiled", "compiled, with 1 worker"),
    ],
)
def test_the_rate_decides_the_engine_of_dnsload_unless_the_user_names_one(arguments: str, engine: str) -> None:
    assert engine_of(*arguments.split()) == engine


def test_without_a_c_compiler_dnsload_uses_the_engine_on_asyncio_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    named = ("--name", "a.ts.net", "--concurrency", "1", "--duration", "0.01", "--timeout", "0.01")
    assert run(settings(*named)).engine == "asyncio"
    assert "the engine is asyncio: there is no C compiler: apt-get install gcc" in capsys.readouterr().err
    with pytest.raises(ClientError, match="there is no C compiler"):
        run(settings(*named, "--engine", "compiled"))


def test_without_a_writable_temporary_folder_dnsload_uses_the_engine_on_asyncio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with ExitStack() as stack:
        program, words = choose_engine(settings("--name", "a.ts.net", "--concurrency", "1"), stack)
    assert (program, words.startswith("asyncio: there is no folder to compile the client in: ")) == (None, True)


def test_a_run_of_dnsload_has_enough_sockets_for_its_message_ids() -> None:
    named = ("--name", "a.ts.net", "--target", "[::1]:53")
    assert [str(target) for target in every_target(settings(*named, "--sockets", "2"))] == [
        *("127.0.0.1:53", "[::1]:53") * 2
    ]
    many = every_target(settings(*named, "--rate", "1000000"))
    assert 2 * 1_000_000 < len(many) * 65536 < 2 * 2_000_000
    assert len(every_target(settings(*named, "--rate", "1000000", "--tcp", "--connections", "3"))) == 6


def test_the_questions_come_from_the_records_unless_the_user_gives_others(tmp_path: Path) -> None:
    records = ("--records", str(records_file(tmp_path)), "--types", "A,AAAA")
    assert len(make_workload(settings(*records)).pool) == 2 * len(NAMES)
    listed = tmp_path / "names"
    listed.write_text("db.ts.net MX\n")
    named = make_workload(settings(*records, "--names", str(listed), "--name", f"{NAMES[0]} A"))
    assert [str(asked.question) for asked in named.pool] == ["db.ts.net MX", f"{NAMES[0]} A"]


@pytest.mark.parametrize(
    ("arguments", "flags", "fate"),
    [
        ("--types AAAA", 0x84, Fate.RIGHT),
        ("--types AAAA", 0x80, Fate.WRONG),
        ("--types AAAA --resolver", 0x80, Fate.RIGHT),
        ("--types AAAA", 0x86, Fate.TRUNCATED),
        ("--types AAAA --tcp", 0x86, Fate.WRONG),
    ],
)
def test_the_expected_answers_depend_on_records_transport_and_kind_of_server(
    tmp_path: Path, arguments: str, flags: int, fate: Fate
) -> None:
    known = settings("--records", str(records_file(tmp_path)), *arguments.split())
    session = make_session(known, make_workload(known))
    nodata = bytes((flags, 0)) + session.workload.pool[0].packet[2:]
    assert session.checker.judge(0, nodata).fate is fate
