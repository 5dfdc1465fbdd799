"""Where built parts and a running bed's files lie: both outside the source tree."""

import os
from dataclasses import dataclass
from pathlib import Path

NAME = "tailnet-operator-testbed"
PARTS = Path(__file__).parent / "parts"
MANIFESTS = Path(__file__).parent / "manifests"


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders of the testbed; *work* holds a running bed and is emptied by `down`, its logs excepted."""

    cache: Path
    work: Path

    @classmethod
    def from_environment(cls) -> "Paths":
        """Honour XDG_CACHE_HOME for what is kept, and TESTBED_WORK (default: a folder in /var/tmp) for what runs.

        The work folder must not lie on an overlay file system, nor under a folder that the bed makes private
        (`isolation.PRIVATE`).
        """
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cls(cache=cache / NAME, work=Path(os.environ.get("TESTBED_WORK") or Path("/var/tmp") / NAME))
