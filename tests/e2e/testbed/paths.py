"""The folders of built parts and of a running bed, both outside the source tree."""

import os
from dataclasses import dataclass
from pathlib import Path

NAME = "tailnet-operator-testbed"
PARTS = Path(__file__).parent / "parts"
MANIFESTS = Path(__file__).parent / "manifests"


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders of the testbed: *cache* for built parts, and *work* for a running bed and its logs."""

    cache: Path
    work: Path

    @classmethod
    def from_environment(cls) -> "Paths":
        """Return the paths that XDG_CACHE_HOME (for built parts) and TESTBED_WORK (for a running bed) name.

        The default work folder is in /var/tmp. The work folder must not be on an overlay file system, nor below a
        folder that the bed makes private (`isolation.PRIVATE`).
        """
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cls(cache=cache / NAME, work=Path(os.environ.get("TESTBED_WORK") or Path("/var/tmp") / NAME))
