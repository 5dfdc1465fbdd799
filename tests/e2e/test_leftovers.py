"""What a bed makes is seen when it is left behind, and leaves nothing when it is removed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.testbed.isolation import NETNS, Isolation
from tests.e2e.testbed.leftovers import Snapshot, leftovers
from tests.e2e.testbed.paths import Paths

NAME = "leftover-test"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(cache=tmp_path / "cache", work=tmp_path)


@pytest.fixture
def before(paths: Paths) -> Snapshot:
    return Snapshot.take(paths)


@pytest.fixture
def machine(paths: Paths, before: Snapshot) -> Iterator[Isolation]:
    made = Isolation.make(NAME, paths.work / NAME)
    yield made
    made.remove()


def test_what_is_left_behind_is_named(machine: Isolation, before: Snapshot, paths: Paths) -> None:
    found = leftovers(before, paths)
    assert f"namespaces: new: {NAME}" in found
    assert any(f"nsfs {NETNS / NAME}" in line for line in found if line.startswith("mounts: new"))
    assert any(str(machine.folder) in line for line in found if line.startswith("processes: new"))


def test_a_machine_takes_what_was_done_on_it_along(machine: Isolation, before: Snapshot, paths: Paths) -> None:
    machine.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"])
    machine.run(["sh", "-c", "echo nameserver 192.0.2.1 > /etc/resolv.conf; mkdir /var/lib/left-behind"])
    machine.run(["sh", "-c", "setsid sleep 600 > /dev/null 2>&1 & exec iptables -A INPUT -j DROP"])
    machine.remove()
    ours = [line for line in leftovers(before, paths) if NAME in line or "resolv_conf" in line or "iptables" in line]
    assert ours == []
    assert not Path("/var/lib/left-behind").exists()
