"""Tests of server processes. Child processes are measured and ended together with the server."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from dnsbench.errors import BenchError
from dnsbench.process import Stat, running

from tests.loadtest.dnsbench.conftest import SERVER_CORE

FORKING = ["sh", "-c", "sleep 60 & echo $!; wait"]
CAP_NET_ADMIN = 12


def test_a_line_of_proc_stat_is_parsed_whatever_the_name_of_the_command() -> None:
    fields = "S 1 7 7 0 -1 0 0 0 0 0 11 22 0 0 20 0 1 0 100 4096 300 0"
    assert Stat.parse(f"42 (a) b) {fields}\n") == Stat(42, False, 7, 33, 300)


def test_a_measured_server_lacks_the_capability_net_admin_as_in_a_pod(tmp_path: Path) -> None:
    with running(FORKING, SERVER_CORE, 1, tmp_path / "log", lambda: (tmp_path / "log").stat().st_size > 0) as server:
        said = Path(f"/proc/{server.pid}/status").read_text()
        (allowed,) = re.findall(r"^CapEff:\s*(\w+)$", said, re.MULTILINE)
        assert not int(allowed, 16) >> CAP_NET_ADMIN & 1


def test_child_processes_end_with_the_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(FORKING, SERVER_CORE, 1, log, lambda: log.read_text().endswith("\n")):
        child = Path("/proc") / log.read_text().strip()
        assert child.exists()
    assert not child.exists() or Stat.parse((child / "stat").read_text()).ended  # its new parent is yet to reap it


def test_the_memory_of_a_server_includes_its_child_processes(tmp_path: Path) -> None:
    with running(FORKING, SERVER_CORE, 1, tmp_path / "log", lambda: True) as server:
        stat = Path(f"/proc/{server.pid}/stat")
        _wait_until(  # a process has no memory of its own at first
            lambda: server.rss_bytes > Stat.parse(stat.read_text()).rss_pages * os.sysconf("SC_PAGESIZE") > 0
        )


def test_the_measured_cpu_time_of_a_busy_server_grows(tmp_path: Path) -> None:
    with running(["sh", "-c", "while :; do :; done"], SERVER_CORE, 1, tmp_path / "log", lambda: True) as server:
        _wait_until(lambda: server.cpu_seconds >= 0.05)


def _wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline


def test_a_server_that_ends_while_it_is_measured_is_an_error(tmp_path: Path) -> None:
    def measure() -> None:
        with running(command, SERVER_CORE, 1, tmp_path / "log", lambda: True) as server:
            (tmp_path / "go").touch()
            os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)

    command = ["sh", "-c", f"until test -e {tmp_path}/go; do :; done; exit 4"]
    with pytest.raises(BenchError, match="ended with code 4"):
        measure()
