"""Debian's Prometheus, which scrapes the operator and the nameserver of a demo. It isn't installed, only unpacked."""

import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from clustersim.processes import free_port

from tests.e2e.testbed.commands import run
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

Json = dict[str, Any]

NAMESPACE: Final = "tailscale"
PORTS: Final = {"operator": 9002, "nameserver": 9153}
"""The programs that Prometheus scrapes, and the port with the metrics of each."""
_UP_SECONDS: Final = 30


def prometheus_program(name: str) -> Path:
    """Return the path of ``prometheus`` or ``promtool``, from Debian's package, which is unpacked into the cache."""
    folder = Paths.from_environment().cache / "prometheus"
    if not (folder / name).exists():
        with Progress().step("unpacking Debian's prometheus"), tempfile.TemporaryDirectory() as work:
            run(["apt-get", "update", "-qq"], timeout=300)
            run(["apt-get", "download", "-qq", "prometheus"], timeout=300, cwd=Path(work))
            unpacked = Path(work) / "unpacked"
            run(["dpkg-deb", "--extract", *Path(work).glob("*.deb"), unpacked], timeout=120)
            folder.mkdir(parents=True, exist_ok=True)
            for program in ("prometheus", "promtool"):
                shutil.copy2(unpacked / "usr" / "bin" / program, folder / program)
    return folder / name


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus that runs."""

    url: str

    def query(self, expression: str) -> list[Json]:
        """Return the series that the query *expression* has now."""
        found: list[Json] = self._ask("query", query=expression)["result"]
        return found

    def range(self, expression: str, start: float, end: float) -> list[Json]:
        """Return the series of the query *expression* from *start* to *end*, with a value for each second."""
        found: list[Json] = self._ask("query_range", query=expression, start=start, end=end, step=1)["result"]
        return found

    def _ask(self, what: str, **words: Any) -> Json:
        with urllib.request.urlopen(f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(words)}", timeout=30) as answer:
            data: Json = json.load(answer)["data"]
            return data


@contextmanager
def scraping(api_url: str, folder: Path) -> Iterator[Prometheus]:
    """Run a Prometheus that once a second scrapes the programs of the demo whose API server is at *api_url*."""
    (folder / "prometheus.yml").write_text(yaml.safe_dump(_configuration(api_url)))
    listen = f"127.0.0.1:{free_port()}"
    words = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={listen}",
    ]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([prometheus_program("prometheus"), *words], stdout=log, stderr=subprocess.STDOUT)
    try:
        found = Prometheus(f"http://{listen}")
        _wait_for(found)
        yield found
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(prometheus: Prometheus) -> None:
    """Wait until both programs have been scraped."""
    deadline = time.monotonic() + _UP_SECONDS
    while time.monotonic() < deadline:
        try:
            if len(prometheus.query("up == 1")) == len(PORTS):
                return
        except urllib.error.URLError:  # Prometheus doesn't listen yet
            pass
        time.sleep(0.2)
    raise TimeoutError("Prometheus doesn't scrape the operator and the nameserver")


def _configuration(api_url: str) -> Json:
    """Return the configuration of Prometheus, with the labels that ServiceMonitors add."""
    with urllib.request.urlopen(f"{api_url}/api/v1/namespaces/{NAMESPACE}/pods", timeout=30) as answer:
        pods = json.load(answer)["items"]
    jobs = []
    for app, port in PORTS.items():
        name = next(pod["metadata"]["name"] for pod in pods if pod["metadata"].get("labels", {}).get("app") == app)
        labels = {"namespace": NAMESPACE, "pod": name}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:{port}/proxy/metrics"
        target = {"targets": [api_url.removeprefix("http://")], "labels": labels}
        jobs.append({"job_name": f"{app}-metrics", "metrics_path": path, "static_configs": [target]})
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
