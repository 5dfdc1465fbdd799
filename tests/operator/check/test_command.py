"""The command `tsoperator check` in a Pod: its output, the time for which it waits, and its exit codes."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import pytest
from tsoperator.__main__ import main

from tests.operator.check.conftest import Operator
from tests.operator.check.leading import LEADER, Leading, leading_cluster, row

Run = Callable[..., Awaitable[tuple[str | int | None, list[str]]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs the program as the chart does, and returns the exit code and the printed lines."""

    async def run(*arguments: str, **environment: str) -> tuple[str | int | None, list[str]]:
        monkeypatch.delenv("NAMESERVER_SERVICE_HOST", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        options = ["--namespace=tailscale", "--zone=ts.net", "--seconds=0", *arguments]
        monkeypatch.setattr(sys, "argv", ["tsoperator", "check", *options])
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main)
        return ended.value.code, capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize(
    ("resolv_conf", "name"),
    [
        ("search tailscale.svc.c.example svc.c.example c.example\n", "op.tailscale.svc.c.example."),
        ("search tailscale.svc.c.example svc.c.example c.example\n" * 1000, "op.tailscale.svc.cluster.local."),
        (None, "op.tailscale.svc.cluster.local."),
    ],
    ids=["a Pod's", "too long", "none"],
)
async def test_a_check_takes_the_clusters_domain_from_the_pods_resolv_conf(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path, resolv_conf: str | None, name: str
) -> None:
    if resolv_conf is not None:
        (tmp_path / "resolv.conf").write_text(resolv_conf)
    monkeypatch.setattr("tsoperator.settings._RESOLV_CONF", tmp_path / "resolv.conf")
    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    _, lines = await run("--operator=op:9002")
    assert f"({name}: nobody has that name)" in lines[0]


def nobody(*_asked: object, **_options: object) -> NoReturn:
    raise socket.gaierror(socket.EAI_NONAME, "nobody has that name")


async def test_a_check_in_a_pod_finds_the_nameserver_by_the_environment_variables_of_the_pod(
    operator: Operator, run: Run
) -> None:
    code, lines = await run(f"--operator={operator.at}", NAMESERVER_SERVICE_HOST="::1")
    assert (code, lines[0]) == (1, f"ok: operator at {operator.at} is ready")
    assert lines[-3].startswith("FAILED: nameserver at [::1]:53")
    assert lines[-2].startswith("    To do: see `kubectl")
    assert lines[-1] == "4 ok, 1 to mend"


async def test_a_check_waits_for_an_operator_that_becomes_ready(operator: Operator, run: Run) -> None:
    operator.until_ready = 2
    code, lines = await run(f"--operator={operator.at}", "--seconds=15")
    assert (code, [line for line in lines if not line.startswith("ok: ")]) == (0, ["5 ok, 0 to mend"])
    assert operator.until_ready == -1  # two probes failed, the third one succeeded, and no further probe came
    operator.until_ready = 2
    assert (await run(f"--operator={operator.at}"))[0] == 1


async def test_a_user_can_interrupt_a_check(operator: Operator, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("tsoperator.check.command.time.sleep", interrupt)
    operator.until_ready = 2
    assert await run(f"--operator={operator.at}", "--seconds=15") == (130, [])


async def test_the_output_for_machines_is_one_json_object(operator: Operator, run: Run) -> None:
    operator.until_ready = 1
    code, lines = await run(f"--operator={operator.at}", "--json")
    shown = json.loads("\n".join(lines))
    assert (code, shown["healthy"]) == (1, False)
    assert shown["findings"][0]["verdict"] == "failed"


@pytest.mark.parametrize(("variable", "option"), [("/missing", ""), ("/other", "--kubeconfig=/missing")])
async def test_a_check_without_the_option_operator_looks_at_the_cluster_of_the_kubeconfig(
    run: Run, variable: str, option: str
) -> None:
    code, lines = await run(*filter(None, [option]), KUBECONFIG=variable)
    assert (code, len(lines)) == (2, 3)
    assert "there is no file /missing" in lines[0]


@pytest.fixture
async def led(tmp_path: Path) -> AsyncIterator[Leading]:
    async with leading_cluster(tmp_path) as cluster:
        cluster.objects = [row(), row(namespace="web", verdict="failed", words="web is taken")]
        yield cluster


SERVED = "ok: objects that are served: 1"


@pytest.mark.parametrize(
    ("namespace", "denied", "code", "lines"),
    [
        ("shop", ["/deployments"], 0, [SERVED, "2 ok, 0 to mend"]),
        # Scripts for older versions give the operator's namespace with --namespace, and expect a check of all objects.
        ("tailscale", [], 1, ["FAILED: Service web/db: web is taken", SERVED, "2 ok, 1 to mend"]),
    ],
    ids=["of one namespace, by a user without rights", "of all objects"],
)
async def test_a_check_asks_the_leader_for_its_report(
    led: Leading, run: Run, namespace: str, denied: list[str], code: int, lines: list[str]
) -> None:
    led.denied = denied
    found, printed = await run("-n", namespace, KUBECONFIG=str(led.kubeconfig))
    assert printed[0] == "ok: operator 0.1.0 in Pod tailscale/operator-0 leads since 2026-01-01T00:00:00Z"
    assert (found, printed[1:]) == (code, lines)


async def test_a_check_of_a_users_namespace_also_looks_for_the_operator_in_other_namespaces(
    led: Leading, run: Run
) -> None:
    led.denied = ["/tailscale/", "/v1/leases"]
    code, lines = await run("-n", "shop", KUBECONFIG=str(led.kubeconfig))
    assert (code, lines[0].split(": ")[:2]) == (2, ["can't look", "the cluster can't be looked at"])


async def test_a_check_looks_at_the_cluster_itself_if_no_operator_answers(led: Leading, run: Run) -> None:
    led.deaf = {LEADER}
    code, lines = await run(KUBECONFIG=str(led.kubeconfig))
    assert (code, lines[0]) == (1, "FAILED: no Deployment in namespace tailscale runs this operator")
