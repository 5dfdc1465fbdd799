"""What a failure leaves for people: logs, events and objects of the bed."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management

_LISTS = {
    "pods.txt": ["get", "pods", "-A", "-o", "wide"],
    "events.txt": ["get", "events", "-A", "--sort-by=.metadata.creationTimestamp"],
    "pods.yaml": ["get", "pods", "-A", "-o", "yaml"],
    "objects.yaml": [
        "get",
        "services,endpointslices,ingresses,configmaps,statefulsets,deployments,connectors,dnsconfigs,leases",
        "-A",
        "-o",
        "yaml",
    ],
}
_LIMIT = 20.0  # seconds for each look


def collect(bed: Bed, folder: Path) -> None:
    """Write everything into *folder*; what can't be had is named there instead."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # The kubelet writes the Pods' logs among the daemons': those of Pods that are gone are there as long as they are.
    shutil.copytree(bed.daemons.logs, folder / "logs", ignore_dangling_symlinks=True)
    for name, words in _LISTS.items():
        _write(folder / name, partial(bed.kubectl, *words, timeout=_LIMIT))
    _write(folder / "devices.json", lambda: _devices(bed))


def _devices(bed: Bed) -> str:
    return json.dumps(Management.log_in(bed.machines["wan"]).devices(), indent=1)


def _write(file: Path, look: Callable[[], str]) -> None:
    try:
        file.write_text(look())
    except BedError as error:
        file.write_text(f"could not be had: {error}\n")
