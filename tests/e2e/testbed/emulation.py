"""Runs programs of the other architecture on this machine, by Debian's QEMU and the kernel's binfmt_misc."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, STDOUT

from tests.e2e.testbed import oci, packages
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.progress import Progress

_DEBIANS = "qemu-" + {"arm64": "aarch64", "amd64": "x86_64"}[oci.other_architecture()]
"""The name of Debian's rule for QEMU in binfmt_misc. The rule is there if somebody else has registered it."""

_OURS = f"testbed-{_DEBIANS}"
_RULE = Path("/usr/lib/binfmt.d") / f"{_DEBIANS}.conf"

# Since Linux 6.7, the last unmount deletes the rules. So this process keeps a mount of its own, until its input ends.
_HOLDER = """
rules=/proc/sys/fs/binfmt_misc
mount -t binfmt_misc binfmt_misc $rules
if test -e $rules/$1 || test -e $rules/$2; then ours=; else ours=$2; printf %s "$3" > $rules/register; fi
echo ready
read -r _ || true
test -z "$ours" || echo -1 > $rules/$ours
"""


@contextmanager
def emulated(progress: Progress) -> Iterator[None]:
    """Let the kernel run programs of the other architecture by QEMU during the block, also in containers and chroots.

    Raises: BedError: QEMU can't be installed, or the kernel refuses the rule by which it would use QEMU.
    """
    packages.install(progress, packages.EMULATOR)
    rule = _RULE.read_text().strip().replace(_DEBIANS, _OURS, 1)
    apart = ["unshare", "--mount", "--propagation", "private"]
    words = [*apart, "sh", "-euc", _HOLDER, "sh", _DEBIANS, _OURS, rule]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=STDOUT, text=True) as holder:
        assert holder.stdout
        said = holder.stdout.readline().strip()
        if said != "ready":
            raise BedError(
                f"no program for {oci.other_architecture()} can run here, because the kernel takes no rule for QEMU. "
                f"It needs binfmt_misc (modprobe binfmt_misc), and root of the whole machine: {said}"
            )
        yield
