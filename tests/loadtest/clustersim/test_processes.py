import asyncio
import os
from pathlib import Path

import pytest
from clustersim.processes import ProcessError, Processes

SLEEPER = "time.sleep(60)"
FAILURE = "sys.exit('no such thing')"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); "


async def start(processes: Processes, folder: Path, code: str) -> None:
    """Start a Python program with *code*, and wait until it reaches its last statement."""
    before, after = code.rsplit("; ", 1) if "; " in code else ("", code)
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    (folder / "program.py").write_text(
        f"import signal, sys, time; {before}\nopen({str(pipe)!r}, 'w').close()\n{after}\n"
    )
    await processes.start("it", "program", environment={"PYTHONPATH": str(folder)})
    await asyncio.to_thread(pipe.read_bytes)


async def test_a_started_process_is_stopped_at_the_end_of_the_context_manager(tmp_path: Path) -> None:
    async with Processes(tmp_path) as processes:
        await start(processes, tmp_path, SLEEPER)
        processes.check()
    with pytest.raises(ProcessError, match="it ended with code -15"):
        processes.check()


async def test_a_process_that_ignores_its_stop_signal_is_killed(tmp_path: Path) -> None:
    async with Processes(tmp_path, stop_seconds=0.1) as processes:
        await start(processes, tmp_path, STUBBORN + SLEEPER)
    with pytest.raises(ProcessError, match="it ended with code -9"):
        processes.check()


@pytest.mark.thorough
async def test_cancelling_the_stop_of_a_process_kills_the_process(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    await start(processes, tmp_path, STUBBORN + SLEEPER)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await processes.__aexit__(None, None, None)
    await processes.__aexit__(None, None, None)
    with pytest.raises(ProcessError, match="it ended with code -9"):
        processes.check()


async def test_the_error_about_a_failed_process_contains_its_last_output(tmp_path: Path) -> None:
    async with Processes(tmp_path) as processes:
        await start(processes, tmp_path, STUBBORN + FAILURE)
    assert processes.tails() == {"it": ["no such thing"]}
    with pytest.raises(ProcessError, match="it ended with code 1"):
        processes.check()
