"""Builds the compiled UDP loop if there is a compiler. This is a hook of the wheel's build, and a command.

Without a compiler or Python's headers, or on another system than Linux, the wheel is built without the loop, and the
nameserver uses the loop in Python. `CC=false pip install .` leaves it out on purpose.
"""

import contextlib
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

SOURCES = sorted(Path(__file__).parent.glob("*.c"))
FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-Wall", "-Wextra")
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")
_LIMIT = 120
"""The time limit of the compiler, in seconds."""


def build(folder: Path, *flags: str) -> Path | None:
    """Compile the module into *folder*; return its path, or None if it can't be compiled."""
    target = folder / f"_udploop{sysconfig.get_config_var('EXT_SUFFIX')}"
    target.unlink(missing_ok=True)
    if sys.platform != "linux":
        return _left_out("it is for Linux")
    words = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, *flags]
    words += [f"-I{sysconfig.get_path('include')}", *map(str, SOURCES), "-o", str(target)]
    try:
        subprocess.run(words, check=True, timeout=_LIMIT)  # noqa: S603 - the command is ours, except for CC of the user who builds
    except (OSError, subprocess.SubprocessError) as error:
        return _left_out(f"it wants a C compiler and Python's headers: {error}")
    return target


def _left_out(why: str) -> None:
    sys.stderr.write(f"the compiled UDP loop is left out: {why}\n")


with contextlib.suppress(ImportError):  # hatchling is installed only while it builds a wheel
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class UdpLoopHook(BuildHookInterface):
        """Adds the compiled module to a wheel, including the wheel of an editable install."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Build the module. If that fails, the wheel has only Python code, and fits any platform."""
            built = build(Path(self.root) / "nameserver" / "tsnameserver")
            if built is not None:
                build_data.update(pure_python=False, infer_tag=True)
                build_data["artifacts"].append(str(built.relative_to(self.root)))


if __name__ == "__main__":
    found = build(Path(sys.argv[1]), *(SANITIZERS if "--sanitized" in sys.argv[2:] else ()))
    sys.exit(0 if found else 1)
