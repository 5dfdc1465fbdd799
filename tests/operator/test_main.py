"""The operator as a process: its exit codes, its one-line errors, and its immediate stop at a signal."""

import asyncio
import inspect
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from tsnameserver import __version__
from tsoperator import settings
from tsoperator.__main__ import main
from tsoperator.api.names import ANNOTATION_LEADER_CONTAINER
from tsoperator.api.objects import Object, annotations
from tsoperator.variables import VARIABLES

from tests.support.cluster import until
from tests.support.lanes import cases

Environment = dict[str, str]
Ended = tuple[str | int | None, str]


@dataclass(frozen=True)
class Process:
    """A running process of the operator, and its log."""

    child: asyncio.subprocess.Process

    async def says(self, words: str) -> str:
        """Return the next line of the log that contains *words*."""
        assert self.child.stderr
        async with asyncio.timeout(30):
            while line := (await self.child.stderr.readline()).decode():
                if words in line:
                    return line
        raise AssertionError(f"the log ended without {words!r}")

    async def ends(self, seconds: float = 20) -> tuple[int, str]:
        """Wait for the end of the process; return the exit code and the rest of the log, which has no traceback."""
        async with asyncio.timeout(seconds):
            _, rest = await self.child.communicate()
        assert self.child.returncode is not None
        assert b"Traceback" not in rest
        return self.child.returncode, rest.decode()

    async def stops(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send the process a signal to stop, and return its exit code and the rest of its log."""
        self.child.send_signal(number)
        return await self.ends(12)


@asynccontextmanager
async def operator(environment: Mapping[str, str], *arguments: str) -> AsyncIterator[Process]:
    """Run the operator with only the variables in *environment*."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tsoperator", *arguments,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Process(child)
    finally:
        if child.returncode is None:
            child.kill()
            await child.communicate()


@pytest.fixture
def environment(sim: ClusterSim, tmp_path: Path) -> Environment:
    """Variables with which an operator's process uses the simulated cluster."""
    for name in ("id", "secret"):
        (tmp_path / name).write_text("kClientCNTRL")
    (tmp_path / "kubeconfig").write_text(sim.kubeconfig())
    return {
        "HOME": str(tmp_path),
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "OPERATOR_LOGIN_SERVER": sim.control_url,
        "OPERATOR_NAMESPACE": "tailscale",
        "CLIENT_ID_FILE": str(tmp_path / "id"),
        "CLIENT_SECRET_FILE": str(tmp_path / "secret"),
        "OPERATOR_HEALTH_ADDR": "",
        "OPERATOR_STATUS_ADDR": "",
    }


def holder(sim: ClusterSim) -> str:
    lease = sim.store.find(kinds.LEASE, "tailscale", "tailscale-operator")
    return lease["spec"]["holderIdentity"] if lease else ""


WRONG = {
    "a setting": ({"PROXY_TAGS": "k8s"}, 2, r"tsoperator: PROXY_TAGS\b[^\n]+\n"),
    "no cluster": (
        {"KUBECONFIG": ""},
        1,
        r"[^\n]*cannot find the API server: [^\n]*/\.kube/config; set KUBECONFIG[^\n]*\n",
    ),
    "an address in use": (
        {"OPERATOR_HEALTH_ADDR": "API_SERVER"},
        1,
        r"[^\n]*cannot serve probes and metrics on 127\.0\.0\.1:\d+[^\n]*\n",
    ),
}


@pytest.mark.parametrize("wrong", cases(WRONG, "a setting", "no cluster"))
async def test_an_operator_that_cannot_work_says_why_in_one_line(
    sim: ClusterSim, environment: Environment, wrong: tuple[Environment, int, str]
) -> None:
    changes, code, line = wrong
    taken = sim.api_url.removeprefix("http://")
    given = {name: value.replace("API_SERVER", taken) for name, value in changes.items()}
    async with operator({**environment, **given}) as process:
        found, log = await process.ends()
    assert found == code
    assert re.fullmatch(line, log)


async def test_the_error_for_unusable_certificates_is_one_line(
    sim: ClusterSim, environment: Environment, tmp_path: Path
) -> None:
    useless = "certificate-authority-data: bm9uZQ==\n    server: https:"
    (tmp_path / "kubeconfig").write_text(sim.kubeconfig().replace("server: http:", useless))
    async with operator(environment) as process:
        code, log = await process.ends()
    assert code == 1
    assert re.fullmatch(r"[^\n]*cannot use the certificates[^\n]*\n", log)


@pytest.mark.thorough
async def test_a_wrong_setting_whose_meaning_is_clear_is_logged(environment: Environment) -> None:
    async with operator({**environment, "PROXY_TAGS": "tag:k8s,"}) as process:
        await process.says("WARNING PROXY_TAGS: 'tag:k8s,' has a comma too many: write tag:k8s\n")


@pytest.mark.thorough
async def test_a_check_prints_its_findings_and_no_log(environment: Environment) -> None:
    async with operator({**environment, "KUBECONFIG": ""}, "check", "--namespace", "tailscale") as process:
        code, said = await process.ends()
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("the operator wasn't asked: the cluster can't be reached: ")


async def test_the_lease_names_the_leader_which_stops_at_once_at_a_signal(
    sim: ClusterSim, environment: Environment
) -> None:
    async with operator({**environment, "POD_NAME": "operator-0", "OPERATOR_LOG_FORMAT": "json"}) as process:
        leading = json.loads(await process.says("leading:"))
        assert re.fullmatch(r"operator-0_[0-9a-f-]{36}", holder(sim))
        code, log = await process.stops()
    assert (code, holder(sim)) == (0, "")
    assert (leading["level"], leading["logger"]) == ("info", "tsoperator.runtime.leader")
    assert json.loads(log.splitlines()[-1])["msg"] == "stopped"


@pytest.mark.thorough
async def test_a_standby_leads_as_soon_as_the_pod_of_a_killed_leader_shows_that_the_leader_has_ended(
    sim: ClusterSim, environment: Environment
) -> None:
    sim.store.silent_nodes.add("here")  # the test plays the kubelet of this node
    for name in ("first", "second"):
        tell(sim, name, {"running": {}})
    async with operator({**environment, "POD_NAME": "first"}) as first:
        await first.says("leading: first_")
        async with operator({**environment, "POD_NAME": "second"}) as second:
            await second.says("standing by")
            await until(lambda: ANNOTATION_LEADER_CONTAINER in annotations(lease(sim)))
            first.child.kill()
            now = f"{datetime.now(UTC):%FT%TZ}"
            tell(sim, "first", {"terminated": {"containerID": "sim://first", "finishedAt": now}})
            async with asyncio.timeout(9):  # if it only waits, it leads after 10 s at the earliest
                await second.says("leading: second_")
            await second.stops()


def lease(sim: ClusterSim) -> Object:
    return sim.store.get(kinds.LEASE, "tailscale", "tailscale-operator")


def tell(sim: ClusterSim, name: str, state: Object) -> None:
    """Write the container's *state* into the status of the operator's Pod *name*; create the Pod if it is missing."""
    if sim.store.find(kinds.POD, "tailscale", name) is None:
        spec = {"nodeName": "here", "containers": [{"name": "operator", "image": "operator"}]}
        sim.store.create(kinds.POD, {"metadata": {"namespace": "tailscale", "name": name}, "spec": spec})
    status = {"name": "operator", "containerID": f"sim://{name}", "state": state}
    sim.store.merge(kinds.POD, "tailscale", name, {"status": {"containerStatuses": [status]}}, "status")


@pytest.mark.thorough
async def test_an_interrupt_stops_an_operator_that_runs_without_leader_election(
    sim: ClusterSim, environment: Environment
) -> None:
    async with operator({**environment, "OPERATOR_LEADER_ELECTION": "false"}) as process:
        await process.says("leading:")
        code, log = await process.stops(signal.SIGINT)
    assert (code, holder(sim)) == (0, "")
    assert log.endswith("INFO    stopped\n")


@pytest.mark.thorough
@pytest.mark.parametrize("led", [False, True])
async def test_an_operator_that_waits_for_an_absent_api_server_stops_at_once_at_a_signal(
    sim: ClusterSim, environment: Environment, led: bool
) -> None:
    sim.faults.leave()
    async with operator(environment) as process:
        await process.says("the API server does not answer")
        if led:
            sim.faults.clear()
            await process.says("leading:")
            sim.faults.leave()
            await process.says("the API server does not answer")
        assert (await process.stops())[0] == 0


@pytest.mark.thorough
async def test_a_leader_that_loses_its_lease_ends(sim: ClusterSim, environment: Environment) -> None:
    async with operator(environment) as process:
        await process.says("leading:")
        sim.store.merge(kinds.LEASE, "tailscale", "tailscale-operator", {"spec": {"holderIdentity": "another"}})
        code, log = await process.ends(30)
    assert code == 1
    assert "tailscale/tailscale-operator is held by another" in log


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], Ended]:
    """A function that runs the command line with one argument, and returns the exit code and the printed text."""

    def run(argument: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["tsoperator", argument])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code, out + err

    return run


def test_help_names_every_variable_that_is_read_and_the_exit_codes(command_line: Callable[[str], Ended]) -> None:
    code, text = command_line("--help")
    read = {*re.findall(r'"([A-Z][A-Z0-9]*(?:_[A-Z]+)+|KUBECONFIG)"', inspect.getsource(settings))}
    assert (code, len(read) > 15) == (0, True)
    assert read <= {*VARIABLES} <= {*re.findall(r"^  ([A-Z0-9_]+) ", text, re.MULTILINE)}
    assert "exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot go on, 2 a setting is wrong" in text


def test_the_option_version_prints_the_version_of_the_release(command_line: Callable[[str], Ended]) -> None:
    assert command_line("--version") == (0, f"tsoperator {__version__}\n")


def test_the_command_line_of_the_operator_refuses_an_unknown_argument(command_line: Callable[[str], Ended]) -> None:
    code, text = command_line("--verbose")
    assert code == 2
    assert "unrecognized arguments: --verbose" in text
