"""Runs Debian's Chromium without a window: takes pictures of pages, and returns their HTML after their scripts."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.e2e.testbed.packages import install
from tests.e2e.testbed.progress import Progress

_PACKAGES: Final = {"chromium": "chromium", "fonts-dejavu-core": "chromium"}  # a font comes with the program
_TIMEOUT: Final = 60.0  # the time limit for a picture, in seconds
_SCRIPTS: Final = 3000  # the time in ms, by the page's own clock, that its script has to fetch and to draw


def install_browser() -> None:
    """Install Chromium, and a font. Raises: BedError: apt is missing or fails."""
    install(Progress(), _PACKAGES)


async def document(url: str) -> str:
    """Return the HTML of the page at *url*, after its script has run."""
    return await _chromium("--dump-dom", url)


async def screenshot(url: str, path: Path, size: tuple[int, int], *, dark: bool = False) -> None:
    """Write a picture of the page at *url*, in a window of this *size*, to the file *path*."""
    options = ["--blink-settings=preferredColorScheme=0"] if dark else ["--blink-settings=preferredColorScheme=1"]
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    await _chromium(f"--screenshot={path}", f"--window-size={width},{height}", *options, url)


async def _chromium(*words: str) -> str:
    """Run Chromium with a profile of its own, and return its output."""
    with TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}")
        time = f"--virtual-time-budget={_SCRIPTS}"
        child = await asyncio.create_subprocess_exec(
            "chromium", *options, time, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(_TIMEOUT):
                printed, _ = await child.communicate()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
    assert child.returncode == 0, f"Chromium ended with {child.returncode}"
    return printed.decode()
