"""A new bed removes the leftovers of a bed that was killed, and a bed that is taken down leaves none on the machine."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.product import TREE
from tests.e2e.testbed.bed import Bed, brought_up
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.daemons import strays
from tests.e2e.testbed.isolation import NETNS, Isolation, remove_name
from tests.e2e.testbed.leftovers import Snapshot, leftovers
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

NAME = "leftover-test"
RUN = """
import signal, sys
from dataclasses import replace
from pathlib import Path
from tests.e2e.testbed.bed import Bed, brought_up
from tests.e2e.testbed.paths import Paths
with brought_up(Bed(replace(Paths.from_environment(), work=Path(sys.argv[1])), api_only=True)):
    print("up", flush=True)
    signal.pause()
"""


@pytest.fixture
def before(tmp_path: Path) -> Snapshot:
    return Snapshot.take(tmp_path)


@pytest.fixture
def machine(tmp_path: Path, before: Snapshot) -> Iterator[Isolation]:
    made = Isolation.make(NAME, tmp_path / NAME)
    yield made
    made.remove()


@pytest.mark.full
def test_a_new_bed_removes_what_a_killed_bed_left_behind(tmp_path: Path, before: Snapshot) -> None:
    bed = Bed(replace(Paths.from_environment(), work=tmp_path / "work"), api_only=True)
    bed.up(Progress())
    for daemon in bed.daemons.all():
        daemon.process.end(grace=0)
    with brought_up(bed):
        bed.kubectl("get", "namespaces")
    assert leftovers(before, tmp_path) == []


@pytest.mark.full
def test_a_test_run_that_gets_sigterm_takes_its_bed_down(tmp_path: Path) -> None:
    words = [sys.executable, "-c", RUN, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=TREE) as running:
        assert running.stdout
        assert running.stdout.readline() == "up\n"
        assert strays(tmp_path / "api") != []
        running.terminate()
    assert strays(tmp_path / "api") == []


def test_the_leftovers_of_a_bed_include_the_namespace_the_mount_and_the_processes_of_an_isolation(
    machine: Isolation, before: Snapshot, tmp_path: Path
) -> None:
    found = leftovers(before, tmp_path)
    assert f"namespaces: new: {NAME}" in found
    assert any(f"nsfs {NETNS / NAME}" in line for line in found if line.startswith("mounts: new"))
    assert any(str(machine.folder) in line for line in found if line.startswith("processes: new"))


def test_a_removed_isolation_leaves_no_changes_on_the_machine(
    machine: Isolation, before: Snapshot, tmp_path: Path
) -> None:
    machine.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"])
    machine.run(["sh", "-c", "echo nameserver 192.0.2.1 > /etc/resolv.conf; mkdir /var/lib/left-behind"])
    machine.run(["sh", "-c", "setsid sleep 600 > /dev/null 2>&1 & exec iptables -A INPUT -j DROP"])
    machine.remove()
    ours = [line for line in leftovers(before, tmp_path) if NAME in line or "resolv_conf" in line or "iptables" in line]
    assert ours == []
    assert not Path("/var/lib/left-behind").exists()


def test_the_folder_of_the_names_of_network_namespaces_is_removed_with_the_last_name(tmp_path: Path) -> None:
    first, last = tmp_path / "netns" / "first", tmp_path / "netns" / "last"
    first.parent.mkdir()
    first.touch()
    last.touch()
    remove_name(first)
    assert last.exists()
    remove_name(last)
    assert not last.parent.exists()


def test_the_folder_of_the_names_of_network_namespaces_stays_if_it_is_a_mount(tmp_path: Path) -> None:
    name = tmp_path / "netns" / "last"
    name.parent.mkdir()
    run(["mount", "--bind", name.parent, name.parent])  # as `ip netns add` does
    try:
        name.touch()
        remove_name(name)
        assert list(name.parent.iterdir()) == []
    finally:
        run(["umount", name.parent])
