"""Tests of the compiled loop: each of its answers equals that of `answer`, or it leaves the query to Python."""

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.answer import answer
from tsnameserver.compiler import build_zone
from tsnameserver.counters import Counts
from tsnameserver.records import Records
from tsnameserver.zone import index_of

from tests.nameserver.random_queries import ZONES, mutated, random_query
from tests.nameserver.samples import MANY, SETTINGS, sample_zone, wire

compiled = pytest.importorskip("tsnameserver._udploop", reason="the compiled loop isn't built")

ROOT = Path(__file__).resolve().parents[2]
INDEX = index_of(ZONES[0], None)
FUZZED = int(os.environ.get("FUZZ_PACKETS", "1000000"))
SEED = os.environ.get("FUZZ_SEED", "0")
SHARES = 4
"""The number of shares into which the tested packets are divided, so that several processes can test them."""


def is_same(packet: bytes, index: Any = INDEX) -> bool | None:
    """Tell whether the compiled loop answers and counts *packet* like Python.

    Return None if the compiled loop leaves the packet to Python.
    """
    said = compiled.answer(index, packet)
    if said is None:
        return None
    response, slot = said
    counts, expected = Counts(), Counts()
    counts.fast[slot] += 1
    same = response == answer(packet, ZONES[0], expected)
    return bool(same) and (counts.requests(), counts.responses()) == (expected.requests(), expected.responses())


@given(st.integers(min_value=0).map(lambda seed: random_query(random.Random(seed))) | st.binary(max_size=600))
def test_the_compiled_loop_answers_a_packet_like_python_or_leaves_it_to_python(packet: bytes) -> None:
    assert is_same(packet) is not False


@pytest.mark.parametrize("count", [2_000, pytest.param(FUZZED // SHARES, marks=pytest.mark.thorough)])
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("share", range(SHARES))
def test_the_compiled_loop_answers_mutated_packets_like_python_or_leaves_them_to_python(share: int, count: int) -> None:
    answered = 0
    for packet in mutated(random.Random(f"{SEED} {share}"), count):
        same = is_same(packet)
        assert same is not False, packet.hex()
        answered += same is True
    assert answered > count // 10


def test_the_comparison_of_the_compiled_loop_with_python_detects_two_different_answers() -> None:
    other = index_of(build_zone(Records(ip4={"db.tail1234.ts.net": MANY[:1]}), SETTINGS), None)
    packets = [wire("db.tail1234.ts.net"), wire("no.example.org"), b""]
    assert [is_same(packet, other) for packet in packets] == [False, True, None]


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_sanitizers_of_the_c_compiler_find_no_fault_in_the_compiled_loop(tmp_path: Path) -> None:
    """Run this module and the tests of the thread with AddressSanitizer and UBSan.

    Python is set to allocate all its memory by malloc, which AddressSanitizer watches.
    """
    build = ROOT / "nameserver" / "udploop" / "hatch_build.py"
    subprocess.run([sys.executable, build, tmp_path, "--sanitized"], check=True)
    preloaded = [
        subprocess.check_output(["cc", f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(preloaded),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter has leaks of its own
        "PYTHONMALLOC": "malloc",
        "SANITIZED_UDPLOOP": str(next(tmp_path.glob("_udploop*.so"))),
        "FUZZ_PACKETS": str(FUZZED // 10),
    }
    tests = ["tests/nameserver/test_udp.py", "tests/nameserver/test_udploop.py"]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.nameserver.sanitized"]
    chosen = ["-m", "thorough or not thorough", "-k", "not sanitizers"]
    command = [*words, *chosen, *tests]
    done = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, "Sanitizer" in done.stderr) == (0, False), done.stdout + done.stderr
    assert "runtime error" not in done.stderr


ANSWERED = {
    "a name": wire("db.tail1234.ts.net"),
    "an unused type": wire("db.tail1234.ts.net", "HTTPS"),
    "no such name": wire("no.tail1234.ts.net"),
    "no such zone": wire("example.org"),
    "an empty non-terminal": wire("tail1234.ts.net"),
    "EDNS": wire("db.tail1234.ts.net", use_edns=0),
    "DNSSEC": wire("db.tail1234.ts.net", want_dnssec=True),
    "a deep name": wire("a." * 100 + "ts.net"),
    "a long answer": wire("many.tail1234.ts.net", use_edns=0, payload=1232),
}
LEFT = {
    "another type": wire("ts.net", "SOA"),
    "another class": wire("db.tail1234.ts.net", rdclass="CH"),
    "another version of EDNS": wire("db.tail1234.ts.net", use_edns=1),
    "too long an answer": wire("many.tail1234.ts.net"),
    "the root": wire("."),
    "nothing": b"",
}


@pytest.mark.parametrize("packet", ANSWERED.values(), ids=ANSWERED)
def test_the_compiled_loop_answers_ordinary_queries_itself_once_there_are_records(packet: bytes) -> None:
    assert compiled.answer(index_of(sample_zone(), None), packet)[0] == answer(packet, sample_zone())
    assert compiled.answer(index_of(ZONES[1], None), packet) is None


@pytest.mark.parametrize("packet", LEFT.values(), ids=LEFT)
def test_the_compiled_loop_leaves_unusual_packets_to_python(packet: bytes) -> None:
    assert compiled.answer(index_of(sample_zone(), None), packet) is None


def test_an_index_made_from_another_index_has_its_own_zones_even_if_their_names_are_equally_long() -> None:
    names = Records(ip4={"db.ts.net": MANY[:1], "db.my.net": MANY[:2]})
    one, other = (
        build_zone(names, replace(SETTINGS, origins=origins))
        for origins in (("ts.net", "my.net"), ("my.net", "ts.net"))
    )
    index = index_of(replace(other, nodes=one.nodes), index_of(one, None))
    for name in ("no.ts.net", "no.my.net"):
        assert compiled.answer(index, wire(name))[0] == answer(wire(name), other)


@pytest.mark.parametrize("origins", [("ts.net",), ("ts.net", "example.org"), ("example.org", "ts.net")], ids=str)
def test_an_index_made_from_another_index_gives_the_answers_of_its_own_zone(origins: tuple[str, ...]) -> None:
    old = index_of(sample_zone(), None)
    names = {f"n{number}.ts.net": MANY[:1] for number in range(1000)}
    zone = build_zone(Records(ip4={**names, "n.example.org": MANY[:2]}), replace(SETTINGS, origins=origins))
    index = index_of(zone, index_of(zone, old))
    for name in ("n7.ts.net", "n999.ts.net", "n.ts.net", "db.tail1234.ts.net", "n.example.org", "example.org"):
        for qtype in ("A", "AAAA"):
            assert compiled.answer(index, wire(name, qtype))[0] == answer(wire(name, qtype), zone)


NODE, APEX = (b"", b"", b"\0"), (b"\0", b"", b"")
WRONG: dict[str, tuple[Any, Any, Any]] = {  # the buckets of names, the apexes, and the index before
    "no dicts": ((), (), None),
    "no dict": ((1,) * 256, (), None),
    "no name": (({1: NODE},) * 256, (APEX,), None),
    "an endless name": (({bytes(256): NODE},) * 256, (APEX,), None),
    "no node": (({b"\0": 1},) * 256, (APEX,), None),
    "no A records": (({b"\0": (None, b"", b"\0")},) * 256, (APEX,), None),
    "no AAAA records": (({b"\0": (b"", None, b"\0")},) * 256, (APEX,), None),
    "no apex": (({},) * 256, (1,), None),
    "another origin": (({b"\0": (b"", b"", b"\1a\0")},) * 256, (APEX,), None),
    "too much": (({},) * 256, ((b"\0", bytes(65536), b""),), None),
    "no index": (({},) * 256, (), 1),
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_an_index_for_the_compiled_loop_cannot_be_built_from_objects_that_are_no_zone(
    arguments: tuple[Any, Any, Any],
) -> None:
    with pytest.raises((TypeError, SystemError)):
        compiled.Index(*arguments)
