"""Records the demo: `python -m tests.e2e.demorecording FILE` types commands, and draws their output."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.recorded.draw import Scene, draw_terminal
from tests.e2e.product import TREE
from tests.e2e.test_demo import OWN
from tests.e2e.testbed.build import build_program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress
from tests.loadtest.clustersim.test_demo import kept

COLUMNS: Final = 148
_ROWS: Final = 24
_TITLE: Final = (
    "The demo in a terminal: a Service of one's own is applied, the operator makes a proxy for it, tsoperator list "
    "shows it, and a fault is shown with the command that mends it."
)
_READY: Final = '--for=jsonpath={.status.conditions[?(@.type=="TailscaleProxyReady")].status}=True'
_PORT: Final = re.compile(r"dig @127\.0\.0\.1 -p (\d+)")


def main(path: Path) -> None:
    """Run the demo, type commands, and draw the commands and their output into the file *path*."""
    with tempfile.TemporaryDirectory() as name:
        scenes = [*_playing(Path(name)), _fault(Path(name))]
    path.write_text(draw_terminal(_TITLE, scenes, COLUMNS))


def _playing(folder: Path) -> Iterator[Scene]:
    (folder / "demo").mkdir()
    (folder / "mine.yaml").write_text(OWN)
    with kept(folder / "demo") as (demo, lines):
        kubectl = build_program("kubectl", Paths.from_environment(), Progress())
        path = f"{kubectl.parent}:{TREE / '.venv' / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KUBECONFIG": f"{demo / 'kubeconfig'}", "NO_COLOR": "1"}

        def typed(words: str, command: str, seconds: float, rows: int = _ROWS) -> Scene:
            text = _said(["bash", "-c", command], folder, environment)
            return Scene(words, command, tuple(text.splitlines()[:rows]), seconds)

        begin = [line.rstrip("\n") for line in lines[:_ROWS]]
        yield Scene("a cluster and a tailnet on this machine, both simulated", "make demo KEEP=1", tuple(begin), 5)
        yield typed("a Service for the device db of the tailnet", "cat mine.yaml", 4)
        yield typed("the operator makes a proxy for it", "kubectl apply --filename mine.yaml", 2)
        _said(["kubectl", "wait", "service/mine", _READY, "--timeout=30s"], folder, environment)
        logs = "kubectl logs --namespace tailscale deployment/operator | grep default/mine"
        yield typed("what the operator did", logs, 5)
        yield typed("all that the operator serves", "tsoperator list", 8)
        match = _PORT.search("".join(lines))
        assert match is not None
        dig = f"dig @127.0.0.1 -p {match[1]} db.tail1234.ts.net +noall +answer"
        yield typed("what a Pod gets that looks the device up", dig, 4)
        yield typed("does everything work?", "tsoperator check", 5)


def _fault(folder: Path) -> Scene:
    """Return the scene that shows a fault: what happened, the output of the check, and the command that repairs it."""
    (folder / "fault").mkdir()
    words = [sys.executable, "-m", "clustersim", "demo", "--fail", "policy"]
    text = _said(words, TREE, {**os.environ, "TMPDIR": f"{folder / 'fault'}"})
    wrapped = [part for line in text.splitlines() for part in _wrapped(line)]
    return Scene("what a fault looks like, and what to do", "make demo FAIL=policy", tuple(wrapped[:_ROWS]), 9)


def _wrapped(line: str) -> list[str]:
    """Return *line* split at spaces into parts that fit into the width of the picture."""
    return re.findall(rf".{{1,{COLUMNS - 1}}}(?:\s|$)", line) or [line]


def _said(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
