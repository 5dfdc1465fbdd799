"""The Dockerfile fits the sources that it packs: their version, and the modules that they need."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import yaml
from clustersim.sim import ClusterSim
from tsnameserver import __version__

ROOT = Path(__file__).resolve().parent.parent

USE_EVERYTHING = """
import asyncio, importlib, pkgutil, sys
import tsoperator
for module in pkgutil.walk_packages(tsoperator.__path__, "tsoperator."):
    importlib.import_module(module.name)
from tsoperator.api.objects import SERVICE
from tsoperator.kube.client import KubeClient
from tsoperator.kube.config import load_configuration

async def ask():
    async with KubeClient(await load_configuration(sys.argv[1])) as client:
        await client.list(SERVICE)

asyncio.run(ask())
print(*sys.modules)
"""


def test_the_images_and_the_chart_have_the_version_of_the_sources() -> None:
    (given,) = re.findall(r"^ARG VERSION=(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    chart = yaml.safe_load((ROOT / "charts" / "tailscale-operator" / "Chart.yaml").read_text())
    assert (given, chart["appVersion"]) == (__version__, __version__)


async def test_the_operator_needs_nothing_that_its_image_leaves_out(sim: ClusterSim, tmp_path: Path) -> None:
    left_out = re.compile(r"kubernetes(\.aio)?\.client\.(api|models)\.\w+")
    file = tmp_path / "config"
    file.write_text(sim.kubeconfig())
    words = [sys.executable, "-c", USE_EVERYTHING, str(file)]
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    output, _ = await process.communicate()
    modules = output.decode().split()
    assert "kubernetes.aio.client.rest" in modules
    assert [name for name in modules if left_out.fullmatch(name)] == []
