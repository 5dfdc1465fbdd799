"""The panels of the dashboard, with the demo's data: `python -m tests.e2e.panels FILE` draws them as an SVG."""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from clustersim.dnsclient import ask_tcp, ask_udp

from docs.recorded.draw import Line, Panel, draw_panels
from tests.e2e.product import TREE
from tests.e2e.prometheus import Prometheus, scraping
from tests.loadtest.clustersim.test_demo import kept

Json = dict[str, Any]

DASHBOARD: Final[Json] = json.loads((TREE / "charts/tailscale-operator/files/dashboard.json").read_text())
WINDOW: Final = 40
"""The seconds that a picture shows."""
_VARIABLES: Final = {"$namespace": "tailscale", "$job": ".+", "$__rate_interval": "10s"}
_TITLE: Final = "The panels of the dashboard, while the demo makes Services and asks the nameserver"
_ASKED: Final = ("db.tail1234.ts.net", "queue.tail1234.ts.net", "nothing.tail1234.ts.net")
_SERVERS: Final = re.compile(r"API server (?P<api>\S+), control server (?P<control>\S+)")
_DIG: Final = re.compile(r"dig @127\.0\.0\.1 -p (\d+)")


class Scraped(NamedTuple):
    """A running demo, with the URLs of its servers, and the Prometheus that scrapes it."""

    api: str
    control: str
    dns_port: int
    prometheus: Prometheus


def expressions(panel: Json) -> list[tuple[str, str]]:
    """Return the queries of a *panel*, with values for Grafana's variables, and the legend of each."""
    found = []
    for target in panel["targets"]:
        expression: str = target["expr"]
        for name, value in _VARIABLES.items():
            expression = expression.replace(name, value)
        found.append((expression, target["legendFormat"]))
    return found


@contextmanager
def scraped_demo(folder: Path) -> Iterator[Scraped]:
    """Run the demo and a Prometheus that scrapes it, with their files in *folder*."""
    for name in ("demo", "prometheus"):
        (folder / name).mkdir()
    with kept(folder / "demo") as (_, lines):
        servers, dig = _SERVERS.search("".join(lines)), _DIG.search("".join(lines))
        assert servers is not None
        assert dig is not None
        with scraping(servers["api"], folder / "prometheus") as prometheus:
            yield Scraped(servers["api"], servers["control"], int(dig[1]), prometheus)


def use(scraped: Scraped, seconds: float) -> None:
    """Send queries to the nameserver for *seconds*, and change objects at the same time to give the operator work."""
    ends, hosts = time.monotonic() + seconds, ("store", "stock")
    while time.monotonic() < ends:
        hosts = (hosts[1], hosts[0])
        annotate(scraped, "api/v1/namespaces/default/services/stock", "tailscale.com/hostname", hosts[0])
        asyncio.run(_ask(scraped.dns_port))


def annotate(scraped: Scraped, path: str, name: str, value: str) -> None:
    """Annotate the object at *path* of the demo's API server, as `kubectl annotate` does."""
    send("PATCH", f"{scraped.api}/{path}", {"metadata": {"annotations": {name: value}}})


def send(method: str, url: str, body: Json) -> None:
    """Send a request to a server of the demo. Raises an error if the server refuses it."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    words = ["-H", f"Content-Type: {kind}", "-X", method, "-d", json.dumps(body), url]
    subprocess.run(["curl", "--silent", "--fail", "--output", "/dev/null", *words], timeout=30, check=True)


async def _ask(port: int) -> None:
    for _ in range(20):
        for name in _ASKED:
            for qtype in ("A", "AAAA"):
                await ask_udp(port, name, qtype)
            await ask_tcp(port, name, "A")
        await asyncio.sleep(0.05)


def main(path: Path) -> None:
    """Draw the panels with data of a demo into *path*."""
    with tempfile.TemporaryDirectory() as folder, scraped_demo(Path(folder)) as scraped:
        use(scraped, WINDOW)
        end = time.time()
        panels = [_panel(each, scraped.prometheus, end) for each in DASHBOARD["panels"]]
    path.write_text(draw_panels(_TITLE, panels))


def _panel(panel: Json, prometheus: Prometheus, end: float) -> Panel:
    if panel["type"] == "row":
        return Panel(panel["title"], "row")
    lines = []
    for expression, legend in expressions(panel):
        for series in prometheus.range(expression, end - WINDOW, end):
            name = _named(legend, series["metric"])
            points = tuple((float(at) - end, float(value)) for at, value in series["values"] if value != "NaN")
            lines.append(Line(name, points))
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
    return Panel(panel["title"], panel["type"], unit, tuple(lines))


def _named(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), legend)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
