"""On a machine that can't run a bed, the testbed reports the reason at once, and a test run ends with one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.product import TREE
from tests.e2e.testbed import preflight
from tests.e2e.testbed.commands import run
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.lock import locked


def test_no_bed_starts_on_a_machine_with_another_kubelet(tmp_path: Path) -> None:
    pod = tmp_path / "pids" / "kubepods" / "burstable" / "pod1"
    pod.mkdir(parents=True)
    procs = pod / "cgroup.procs"
    procs.write_text("")  # cgroups that a kubelet leaves when it has ended
    preflight.check_cluster(tmp_path, cgroups=tmp_path)
    procs.write_text("4711\n")
    with pytest.raises(BedError, match="another kubelet runs on this machine"):
        preflight.check_cluster(tmp_path, cgroups=tmp_path)


def test_no_bed_starts_in_a_work_folder_on_an_overlay_file_system(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    run(["mount", "-t", "overlay", "overlay", "-o", options, tmp_path / "merged"])
    try:
        with pytest.raises(BedError, match="is on an overlay file system"):
            preflight.check_cluster(tmp_path / "merged" / "testbed" / "work", cgroups=tmp_path)
    finally:
        run(["umount", tmp_path / "merged"])


def test_a_test_run_for_which_no_bed_can_start_ends_with_one_line(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/e2e/test_exposed.py"]
    with locked(tmp_path, "up"):
        environment = {**os.environ, "TESTBED_WORK": str(tmp_path)}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=TREE, check=False, timeout=60)
    said = f"no testbed: another testbed command works on {tmp_path}: up, pid {os.getpid()}"
    assert (done.returncode, done.stdout.count(said), done.stdout.count("ERROR")) == (1, 1, 0), done.stdout
