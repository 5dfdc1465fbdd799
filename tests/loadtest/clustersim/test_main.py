"""Tests of the command that runs the simulated cluster without an operator."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest


@pytest.mark.thorough
async def test_the_command_clustersim_serve_runs_until_a_signal_stops_it(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    command = [sys.executable, "-m", "clustersim", "serve", "--kubeconfig", str(kubeconfig)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        announced = [await process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert announced[0].split()[-1].decode() in kubeconfig.read_text()
    assert kubeconfig.stat().st_mode & 0o077 == 0
