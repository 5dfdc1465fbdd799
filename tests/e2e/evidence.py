"""Saves the logs, Events and objects of the bed after a failure, for people to read."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tsoperator.api.objects import OWN_KINDS

from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.control import FIRST, SECOND, Tailnet
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management

_KUBERNETES = ("services", "endpointslices", "ingresses", "configmaps", "statefulsets", "deployments", "leases")
_LISTS = {
    "pods.txt": ["get", "pods", "-A", "-o", "wide"],
    "events.txt": ["get", "events", "-A", "--sort-by=.metadata.creationTimestamp"],
    "pods.yaml": ["get", "pods", "-A", "-o", "yaml"],
    "objects.yaml": [
        "get",
        ",".join([*_KUBERNETES, *map(str, OWN_KINDS)]),
        "-A",
        "-o",
        "yaml",
    ],
}
_LIMIT = 20.0  # seconds for each command


def collect(bed: Bed, folder: Path) -> None:
    """Write logs, Events, objects, devices and Tailscale Services into *folder*.

    In place of something that can't be read, write the error.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # The kubelet writes the Pods' logs into this folder, too. It removes the logs of a Pod some time after the Pod.
    shutil.copytree(bed.daemons.logs, folder / "logs", ignore_dangling_symlinks=True)
    for name, words in _LISTS.items():
        _write(folder / name, partial(bed.kubectl, *words, timeout=_LIMIT))
    for tailnet in (FIRST, SECOND):
        _write(folder / f"devices{tailnet.name}.json", partial(_devices, bed, tailnet))
        _write(folder / f"services{tailnet.name}.json", partial(_services, bed, tailnet))


def _devices(bed: Bed, tailnet: Tailnet) -> str:
    return json.dumps(Management.log_in(bed.machines["wan"], tailnet).devices(), indent=1)


def _services(bed: Bed, tailnet: Tailnet) -> str:
    """Return the Tailscale Services of *tailnet*, each with its hosts, in JSON."""
    management = Management.log_in(bed.machines["wan"], tailnet)
    found = [service | {"hosts": management.hosts(service["name"])} for service in management.services()]
    return json.dumps(found, indent=1)


def _write(file: Path, look: Callable[[], str]) -> None:
    try:
        file.write_text(look())
    except (BedError, KeyError) as error:  # KeyError: the bed has failed before it made the machine
        file.write_text(f"could not be had: {type(error).__name__}: {error}\n")
