"""The command `tsoperator list`: its search for the leader, its output, and its errors."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from aiohttp import web
from tsnameserver import __version__
from tsoperator.__main__ import kubectl_plugin, main

from tests.operator.check.leading import LEADER, REFUSED, Leading, leading_cluster, row
from tests.support.cluster import serving, until


class Printed(NamedTuple):
    """The exit code of a command, and its lines on both outputs."""

    code: int | str | None
    out: list[str]
    err: list[str]


List = Callable[..., Awaitable[Printed]]

EGRESS = row(role="egress", names=["db.ts.net"], addresses=["100.64.0.5"], ready=1, wanted=2)
WEB = row("Ingress", "web", "shop", role="ingress", verdict="failed", reason="NameHeld", words="taken", cure="rename")
ROUTER = row("Connector", "", "office", role="connector", verdict="waiting")
OBJECTS = [ROUTER, WEB, EGRESS]


@pytest.fixture
async def led(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Leading]:
    async with leading_cluster(tmp_path) as led:
        led.objects = OBJECTS
        monkeypatch.setenv("KUBECONFIG", str(led.kubeconfig))
        yield led


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> List:
    """A function that runs the program, and returns its output."""

    async def run(*options: str, command: str = "list") -> Printed:
        monkeypatch.setattr(sys, "argv", ["tsoperator", command, *options])
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main)
        out, err = capsys.readouterr()
        return Printed(ended.value.code, out.splitlines(), err.splitlines())

    return run


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], "connector.tailscale.com/office service/db"),
        (["-n", "web"], "connector.tailscale.com/office ingress.networking.k8s.io/shop"),
        (["-A"], "connector.tailscale.com/office ingress.networking.k8s.io/shop service/db"),
        (["-n", "other"], "connector.tailscale.com/office"),
    ],
    ids=["the current namespace", "a namespace", "all", "an empty namespace"],
)
async def test_the_list_has_the_objects_of_a_namespace_and_those_without_a_namespace(
    led: Leading, listed: List, options: list[str], names: str
) -> None:
    assert await listed(*options, "-o", "name") == Printed(0, names.split(), [])


async def test_the_table_that_the_command_list_prints_has_a_row_for_each_object(led: Leading, listed: List) -> None:
    assert (await listed("-A")).out == [
        "NAMESPACE   KIND        NAME     ROLE        TAILNET-NAME   IN-CLUSTER   READY   STATUS             SINCE",
        "-           Connector   office   connector   -              -            -       waiting            -",
        "web         Ingress     shop     ingress     -              -            -       failed: NameHeld   -",
        "shop        Service     db       egress      db.ts.net      -            1/2     ok                 -",
    ]
    wide = (await listed("-A", "-o", "wide")).out
    assert wide[0].split()[-4:] == ["ADDRESSES", "CLUSTER-ADDRESSES", "TAILNET", "MESSAGE"]
    assert wide[2].endswith("taken rename")


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
async def test_json_and_yaml_have_all_fields_of_the_leaders_report(
    led: Leading, listed: List, form: str, read: Callable[[str], dict[str, object]]
) -> None:
    led.report = {"tailnets": [{"name": "", "later": 1}]}
    found = read("\n".join((await listed("-o", form)).out))
    assert (found["objects"], found["tailnets"]) == ([ROUTER, EGRESS], [{"name": "", "later": 1}])


async def test_an_empty_list_of_a_namespace_says_how_many_objects_other_namespaces_have(
    led: Leading, listed: List
) -> None:
    led.objects = [WEB]
    words = "The operator serves nothing in namespace shop. In other namespaces: 1 (-A shows them)"
    assert await listed() == Printed(0, [], [words])


@pytest.mark.parametrize(("words", "shown"), [("\x1b[2Jgone", r"\x1b[2Jgone"), ("a\u202ebé\n", r"a\u202ebé\n")])
async def test_text_that_users_write_cannot_control_the_terminal(
    led: Leading, listed: List, words: str, shown: str
) -> None:
    led.objects = [row(words=words)]
    assert shown in (await listed("-o", "wide")).out[1]


class Found(NamedTuple):
    """A cluster in which `list` finds the leader: its Leases, its Pods, the denied paths, and the options of `list`."""

    leases: dict[str, str]
    pods: list[str]
    denied: list[str] = []  # noqa: RUF012
    options: list[str] = []  # noqa: RUF012


LEASE = {"tailscale": "operator-0_1a"}
FOUND = {
    "by its Lease": Found(LEASE, ["operator-0"]),
    "elsewhere, by the only Lease of the cluster": Found({"ops": "operator-0_1a"}, ["operator-0"]),
    "in the namespace that is named": Found({**LEASE, "ops": "b_1"}, ["operator-0"], [], ["--operator-namespace=ops"]),
    "where --namespace says": Found({"tailscale": "b_1", "ops": "operator-0_1a"}, ["operator-0"], [], ["-n", "ops"]),
    "by what a standby says": Found({"tailscale": "operator-1_1a"}, ["operator-0", "operator-1"]),
    "without a Lease": Found({}, ["operator-1", "operator-0"]),
    "beside a namespace that may not be read": Found(LEASE, ["operator-0"], ["/shop/"], ["--namespace=shop"]),
}


@pytest.mark.parametrize("case", FOUND.values(), ids=FOUND)
async def test_the_list_finds_the_leader_by_leases_and_pods(led: Leading, listed: List, case: Found) -> None:
    led.leases, led.pods, led.denied = case.leases, case.pods, case.denied
    if "--operator-namespace=ops" in case.options:
        led.leases["ops"] = "operator-0_1a"
        led.leases["tailscale"] = "another_1a"
    assert (await listed("-o", "name", *case.options)).code == 0


def changed(**fields: object) -> Callable[[Leading], None]:
    def change(led: Leading) -> None:
        for name, value in fields.items():
            setattr(led, name, value)

    return change


HERE = "tailscale/operator-0"
FAILURES: dict[str, tuple[Callable[[Leading], None], str, str]] = {
    "no operator": (changed(leases={}, pods=[]), "there is no operator in the cluster", "install it"),
    "no right to see leases": (changed(denied=["/leases"], pods=[]), "you may not look", "--operator-namespace"),
    "several operators": (
        changed(leases={"b": "x_1", "a": "y_1"}, pods=[]), "in the namespaces a, b", "--operator-namespace",
    ),
    "nobody leads": (changed(leases={"tailscale": ""}), "nobody holds the Lease tailscale/tailscale-op", "get pods -l"),
    "the leader is gone": (changed(pods=[]), f"Pod {HERE} led last, and is gone", "wait some seconds"),
    "no right to port-forward": (
        changed(denied=["/portforward"]),
        f"you may not forward a port of Pod {HERE}: GET /api/v1/namespaces/tailscale/pods/operator-0/portforward: may",
        "ask for the right to get and create pods/portforward in namespace tailscale, or use `kubectl -n tail",
    ),
    "an operator without a report": (changed(deaf={"operator-0"}), REFUSED, "upgrade the operator"),
    "a standby that knows no leader": (changed(leader=""), f"Pod {HERE} does not lead", "wait some seconds"),
    "a Pod that leads soon": (
        changed(answer=lambda: web.json_response({"leader": LEADER}, status=503)), "does not lead", "wait some seconds",
    ),
    "a Pod that answers something else": (
        changed(answer=lambda: web.Response(text="hello")), "is no report of this operator", "use the version",
    ),
    "a Pod without that page": (changed(answer=lambda: web.Response(status=404)), "HTTP 404", "use the version"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "words", "cure"), FAILURES.values(), ids=FAILURES)
async def test_an_error_says_why_there_is_no_list_and_what_to_do(
    led: Leading, listed: List, make: Callable[[Leading], None], words: str, cure: str
) -> None:
    make(led)
    code, out, (said, to_do) = await listed()
    assert (code, out, words in said, cure in to_do) == (1, [], True, True), (said, to_do)


async def test_the_list_waits_only_for_a_limited_time_for_a_port_forward(
    led: Leading, monkeypatch: pytest.MonkeyPatch, listed: List
) -> None:
    monkeypatch.setattr("tsoperator.check.leader._ANSWER", 0.2)
    led.mute = {LEADER}
    code, _, (said, _) = await listed()
    assert (code, said.endswith("/pods/operator-0/portforward: no answer within 0.2 s")) == (1, True), said


async def test_an_error_says_that_the_cluster_of_a_context_cannot_be_reached(led: Leading, listed: List) -> None:
    code, _, err = await listed("--context", "void")
    assert code == 1
    assert err[0].startswith("tsoperator: the cluster can't be reached: ")


async def test_a_watch_prints_changed_objects_and_goes_on_when_another_pod_leads(
    led: Leading, monkeypatch: pytest.MonkeyPatch, listed: List
) -> None:
    led.pods += ["operator-1"]

    def first() -> None:
        led.objects = [{**ROUTER, "reason": "ConnectorCreating"}, {**EGRESS, "ready": 2}]

    def then() -> None:
        led.leases["tailscale"] = ""
        led.leader = "operator-1"

    def last() -> None:
        led.leases["tailscale"] = "operator-1_2b"
        led.objects = [{**EGRESS, "ready": 2}]

    def stop() -> None:
        raise KeyboardInterrupt

    steps = iter([first, then, last, lambda: None, stop])
    monkeypatch.setattr("tsoperator.check.listcommand.time.sleep", lambda _: next(steps)())
    code, out, err = await listed("-n", "shop", "-w")
    rows = [" ".join(line.split()) for line in out[1:]]
    assert rows == [
        "Connector office connector - - - waiting -",
        "Service db egress db.ts.net - 1/2 ok -",
        "Connector office connector - - - waiting: ConnectorCreating -",
        "Service db egress db.ts.net - 2/2 ok -",
        "Connector office connector - - - gone -",
    ]
    assert (code, len(err)) == (0, 2)
    assert (led.forwards, led.unchanged) == (2, 1)


async def test_a_watch_goes_on_when_its_connection_breaks(
    led: Leading, monkeypatch: pytest.MonkeyPatch, listed: List
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    steps = iter([led.cut, stop])
    monkeypatch.setattr("tsoperator.check.listcommand.time.sleep", lambda _: next(steps)())
    code, out, err = await listed("-o", "name", "-w")
    assert (code, len(out), err, led.forwards) == (0, 2, [], 2)


async def test_a_watch_reconnects_only_through_another_port_forward_if_the_pod_ends_the_connection(
    led: Leading, monkeypatch: pytest.MonkeyPatch, listed: List
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    def connect(_: object) -> None:
        raise AssertionError

    steps = iter([lambda: None, stop])
    monkeypatch.setattr("tsoperator.check.listcommand.time.sleep", lambda _: next(steps)())
    monkeypatch.setattr("tsoperator.kube.portforward.http.client.HTTPConnection.connect", connect)
    led.headers = {"Connection": "close"}
    assert (await listed("-o", "name", "-w")).code == 0
    assert led.forwards == 2


@pytest.fixture
async def inside(led: Leading, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Let the program run in the operator's Pod `LEADER`, which leads unless the test lets another Pod lead."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return await led.status(LEADER, request)

    async with serving(handler) as url:
        monkeypatch.setenv("KUBECONFIG", "")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("OPERATOR_NAMESPACE", "tailscale")
        monkeypatch.setenv("POD_NAME", LEADER)
        monkeypatch.setenv("OPERATOR_STATUS_ADDR", url.removeprefix("http://"))
        yield


async def test_inside_the_leading_pod_all_objects_are_listed(led: Leading, inside: None, listed: List) -> None:
    assert (len((await listed("-o", "name")).out), led.forwards) == (3, 0)


async def test_the_error_inside_a_standby_has_the_command_for_the_leading_pod(
    led: Leading, inside: None, listed: List
) -> None:
    led.leader = "operator-1"
    code, _, (_, to_do) = await listed()
    words = "To do: ask the Pod that leads: `kubectl -n tailscale exec operator-1 -- python3 -m tsoperator list`"
    assert (code, to_do) == (1, words)


async def run_at_terminal(
    *options: str, lines: int = 24, no_color: str = "", code: int = 0
) -> AsyncGenerator[str, None]:
    """Run the program at a terminal, and yield its output there. The program has to end with *code*."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (lines, 100))
    words = [sys.executable, "-m", "tsoperator", *options]
    env = {**os.environ, "TERM": "xterm", "NO_COLOR": no_color}
    for size in ("COLUMNS", "LINES"):  # these would take precedence over the size of the terminal
        env.pop(size, None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background may ignore it
    try:
        process = await asyncio.to_thread(subprocess.Popen, words, stdout=its, stderr=its, stdin=its, env=env)
    finally:
        signal.signal(signal.SIGINT, before)
    os.close(its)
    try:
        while text := await asyncio.to_thread(_read, ours):
            yield text
    finally:
        process.send_signal(signal.SIGINT)
        ended = await asyncio.to_thread(process.wait, 20)
        os.close(ours)
        assert ended == code


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode()
    except OSError:  # the program has ended
        return ""


@pytest.mark.thorough
async def test_a_watch_redraws_a_terminal_when_something_changes(led: Leading) -> None:
    led.objects = [row(name=f"db-{number}") for number in range(9)]
    screens = run_at_terminal("list", "-w", lines=8)
    async with aclosing(screens):
        first = await anext(screens)
        assert first.startswith("\x1b[H\x1b[2J")
        assert [line.split("\x1b")[0].split()[:2] for line in first.splitlines()[1:7]] == [
            *(["Service", f"db-{number}"] for number in range(5)), ["...", "and"],
        ]  # fmt: skip
        await until(lambda: led.reports >= 2)
        led.objects = [row(name="db", verdict="failed", reason="NameHeld")]
        second = await anext(screens)
    assert "\x1b[2J" not in second
    assert "\x1b[31mService   db " in second


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
@pytest.mark.parametrize(
    ("options", "code", "painted"), [(("list", "-A"), 0, "web "), (("check",), 1, "FAILED")], ids=["list", "check"]
)
async def test_only_a_terminal_that_has_colours_gets_colours(
    led: Leading, options: tuple[str, ...], code: int, painted: str, no_color: str, coloured: bool
) -> None:
    text = "".join([each async for each in run_at_terminal(*options, no_color=no_color, code=code)])
    assert (f"\x1b[31m{painted}" in text) is coloured
    assert painted in text


@pytest.mark.parametrize("words", ["list -o name", "check"])
async def test_a_command_ends_without_an_error_if_nobody_reads_its_output_any_more(led: Leading, words: str) -> None:
    command = f"{sys.executable} -m tsoperator {words} | true"
    process = await asyncio.create_subprocess_shell(command, stderr=asyncio.subprocess.PIPE)
    assert (await process.communicate())[1] == b""


async def test_a_console_that_lacks_a_character_shows_the_number_of_the_character(led: Leading) -> None:
    led.objects = [row(words="é")]
    words, env = ["-m", "tsoperator", "list", "-o", "wide"], {**os.environ, "PYTHONIOENCODING": "ascii"}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=pipe, env=env)
    assert (await process.communicate())[0].rstrip().endswith(rb"\xe9")


async def test_kubectl_tailnet_has_the_commands_list_and_check(
    led: Leading, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, code, text in (
        (["list", "-o", "name"], 0, "service/db"),
        (["--version"], 0, f"kubectl-tailnet {__version__}"),
        ([], 2, "usage: kubectl tailnet"),
    ):
        monkeypatch.setattr(sys, "argv", ["kubectl-tailnet", *words])
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(kubectl_plugin)
        assert (ended.value.code, text in "".join(capsys.readouterr())) == (code, True)


async def test_help_and_completion_import_nothing_of_the_operator() -> None:
    code = "import sys, tsoperator.__main__; print(*sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    modules = {*(await process.communicate())[0].decode().split()}
    assert modules & {"tsoperator.app", "kubernetes", "aiohttp", "pydantic", "uvloop", "yaml"} == set()
