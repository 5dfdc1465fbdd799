"""Tests of what a result says of where it was measured."""

import os
import sys
from pathlib import Path

import pytest
from dnsbench.errors import BenchError
from dnsbench.machine import command_line, cores, facts
from dnsbench.servers import Kind


def test_facts_name_the_machine_and_the_versions() -> None:
    found = facts({Kind.OURS: sys.executable, Kind.KNOT: "/nowhere/knotd"}, "dnsbench --quick")
    assert found["command"] == "dnsbench --quick"
    assert found["cores"] == os.cpu_count()
    assert isinstance(found["rmem_max"], int)
    assert found["rmem_max"] >= 4096
    versions = found["versions"]
    assert isinstance(versions, dict)
    assert versions["ours"].startswith("tsnameserver ")
    assert versions["Knot"] == "unknown"


def test_a_version_is_the_first_line_that_a_program_says(tmp_path: Path) -> None:
    program = tmp_path / "nsd"
    program.write_text("#!/bin/sh\necho NSD version 1.2.3 >&2\necho more >&2\n")
    program.chmod(0o755)
    assert facts({Kind.NSD: str(program)}, "")["versions"] == {"NSD": "NSD version 1.2.3"}


def test_the_go_servers_version_is_that_of_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\nprintf '%s: go1.26.6\\n\\tmod\\ttailscale.com\\tv1.2.3\\th1:x=\\n' \"$3\"\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert facts({Kind.GO: "/somewhere/nameserver"}, "")["versions"] == {"Go": "k8s-nameserver v1.2.3"}


def test_the_command_does_not_tell_where_files_lie() -> None:
    words = ["--go-nameserver", "/home/someone/nameserver", "--results", "loadtest/results"]
    assert command_line(words) == "python -m dnsbench --go-nameserver nameserver --results loadtest/results"


def test_server_and_client_have_a_core_each() -> None:
    usable = os.sched_getaffinity(0)
    if len(usable) > 1:
        server, client = cores()
        assert server != client
        assert {server, client} <= usable


def test_a_single_core_is_not_enough() -> None:
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    try:
        with pytest.raises(BenchError, match="two cores"):
            cores()
    finally:
        os.sched_setaffinity(0, usable)
