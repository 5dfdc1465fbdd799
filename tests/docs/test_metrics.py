"""docs/metrics.md has every metric that the two programs show, and no others."""

import re

import aiohttp
from clustersim.processes import free_port
from tsnameserver.metrics import Metrics, metrics_pages
from tsnameserver.reloads import Reloads

from tests.docs.pages import rows, sections
from tests.support.manifests import connector
from tests.support.operator import new_world, running_operator

PAGE = "metrics.md"


def families(scraped: str) -> set[str]:
    """Return the names of the metrics in *scraped*, without the times at which counters began."""
    found = re.findall(r"^# TYPE (\S+)", scraped, flags=re.MULTILINE)
    return {name for name in found if not name.endswith("_created")}


async def test_every_metric_of_the_operator_has_a_row_and_every_row_is_one() -> None:
    address = f"127.0.0.1:{free_port()}"
    async with (
        new_world() as world,
        running_operator(world, health_address=address),
        aiohttp.ClientSession() as session,
    ):
        await world.apply(connector())
        await world.eventually(lambda: world.proxy(connector()))
        async with session.get(f"http://{address}/metrics") as response:
            shown = families(await response.text())
    assert "tsoperator_reconciles_total" in shown
    assert {*rows(sections(PAGE)["The operator"])} == shown


def test_every_metric_of_the_nameserver_has_a_row_and_every_row_is_one() -> None:
    shown = families(metrics_pages(Metrics([], [], Reloads()))["/metrics"]().text)
    assert "tsnameserver_dns_requests_total" in shown
    assert {*rows(sections(PAGE)["The nameserver"])} == shown
