"""The operator's status page in a browser. These tests need no bed."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import matplotlib.image
import pytest
from tsoperator.status.parts import StatusReport
from tsoperator.status.server import StatusServer

from tests.e2e.browser import document, install_browser, screenshot
from tests.e2e.product import TREE
from tests.e2e.statuspage import MARKUP, SIZE, draw, status_page

SHOWN = TREE / "build" / "e2e" / "status"
"""The folder with the pictures of the last run, for people to look at."""

_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


@pytest.fixture(scope="module", autouse=True)
def browser() -> None:
    """Debian's Chromium, installed on this machine."""
    install_browser()


def rows(html: str) -> list[str]:
    """Return the texts of the rows of objects in the page."""
    return [" ".join(unescape(_TAG.sub(" ", row)).split()) for row in _ROW.findall(html.partition("<tbody")[2])]


@asynccontextmanager
async def page_of(objects: int) -> AsyncIterator[str]:
    """Serve the status page of a report with this many *objects*, and yield its URL."""
    row = {"kind": "Service", "namespace": "shop", "role": "egress", "ready": 1, "wanted": 1, "verdict": "ok"}
    listed = [{**row, "name": f"db-{number}", "names": [f"db-{number}.tail1234.ts.net"]} for number in range(objects)]
    body = json.dumps({"version": "0", "namespace": "tailscale", "objects": listed}).encode()

    async def report(_since: datetime) -> StatusReport:
        return StatusReport(body, "0")

    status = StatusServer("127.0.0.1:0", report, lambda: "", lambda: datetime.now(UTC))
    async with status as address:
        leading = asyncio.create_task(status.lead())
        await asyncio.sleep(0)
        yield f"http://{address}/"
        leading.cancel()


async def test_the_status_page_lists_the_objects_that_need_a_repair_first() -> None:
    async with status_page() as url:
        found = rows(await document(url))
        (one,) = rows(await document(f"{url}#ldap%20egress"))
    wrong = [row.partition(" ")[0] for row in found if "to mend" in row]
    assert [row.partition(" ")[0] for row in found[: len(wrong)]] == wrong
    assert {*wrong} == {"default/ci", "default/orders"}
    assert one.startswith("default/ldap Service · egress")
    assert "ldap.default.svc.cluster.local" in one


async def test_the_status_page_shows_markup_in_a_message_as_text() -> None:
    async with status_page(hostile=True) as url:
        html = await document(url)
    assert any(MARKUP in row for row in rows(html))
    assert "<title>Status of the operator</title>" in html
    assert not re.search(r"<img|<script>", html)


@pytest.mark.parametrize(("objects", "shown"), [(1000, 1000), (10000, 1000)])
async def test_the_status_page_shows_at_most_a_thousand_objects(objects: int, shown: int) -> None:
    async with page_of(objects) as url:
        html = await document(url)
        assert len(rows(html)) == shown
        assert (f"The first {shown} of {objects} are shown" in html) == (shown < objects)
        (last,) = rows(await document(f"{url}#db-{objects - 1}."))
        assert last.startswith(f"shop/db-{objects - 1} ")
        await screenshot(url, SHOWN / f"{objects}.png", SIZE)


def brightness(path: Path) -> float:
    """Return the mean brightness of a picture, from 0 to 1."""
    return float(matplotlib.image.imread(path)[..., :3].mean())


async def test_the_status_page_is_light_or_dark_as_the_browser_prefers() -> None:
    light, dark = await draw(SHOWN)
    assert (brightness(light) > 0.85, brightness(dark) < 0.25) == (True, True)


async def test_the_status_page_fits_a_narrow_window() -> None:
    async with status_page() as url:
        await screenshot(url, SHOWN / "narrow.png", (420, 1200))
    assert matplotlib.image.imread(SHOWN / "narrow.png").shape[1] == 420
