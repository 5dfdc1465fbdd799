"""The command `tsoperator list`: how it finds the leader, what it prints, and what it says where that fails."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from aiohttp import web
from tsoperator.__main__ import main

from tests.operator.check.leading import REFUSED, Leading, leading_cluster, row


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
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Leading]:
    async with leading_cluster(tmp_path) as cluster:
        cluster.objects = OBJECTS
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        yield cluster


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> List:
    """Run the program, and return what it prints."""

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
async def test_the_list_has_the_objects_of_a_namespace_and_those_without_one(
    cluster: Leading, listed: List, options: list[str], names: str
) -> None:
    assert await listed(*options, "-o", "name") == Printed(0, names.split(), [])


async def test_the_table_has_a_row_an_object(cluster: Leading, listed: List) -> None:
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
async def test_the_documents_have_all_that_the_leader_tells(
    cluster: Leading, listed: List, form: str, read: Callable[[str], dict[str, object]]
) -> None:
    cluster.report = {"tailnets": [{"name": "", "later": 1}]}
    found = read("\n".join((await listed("-o", form)).out))
    assert (found["objects"], found["tailnets"]) == ([ROUTER, EGRESS], [{"name": "", "later": 1}])


async def test_an_empty_list_says_where_objects_are(cluster: Leading, listed: List) -> None:
    cluster.objects = [WEB]
    words = "The operator serves nothing in namespace shop. In other namespaces: 1 (-A shows them)"
    assert await listed() == Printed(0, [], [words])


async def test_text_that_users_write_cannot_control_the_terminal(cluster: Leading, listed: List) -> None:
    cluster.objects = [row(words="\x1b[2Jgone")]
    assert "\\x1b[2Jgone" in (await listed("-o", "wide")).out[1]


class Found(NamedTuple):
    """A cluster in which `list` finds the leader: its Leases, its Pods, denied paths, and the options it takes."""

    leases: dict[str, str]
    pods: list[str]
    denied: list[str] = []  # noqa: RUF012
    options: list[str] = []  # noqa: RUF012


LEASE = {"tailscale": "operator-0_1a"}
FOUND = {
    "by its Lease": Found(LEASE, ["operator-0"]),
    "elsewhere, by the only Lease of the cluster": Found({"ops": "operator-0_1a"}, ["operator-0"]),
    "in the namespace that is named": Found({**LEASE, "ops": "b_1"}, ["operator-0"], [], ["--operator-namespace=ops"]),
    "where --namespace says": Found({"ops": "operator-0_1a", "x": "c_1"}, ["operator-0"], [], ["--namespace=ops"]),
    "by what a standby says": Found({"tailscale": "operator-1_1a"}, ["operator-0", "operator-1"]),
    "without a Lease": Found({}, ["operator-1", "operator-0"]),
    "beside a namespace that may not be read": Found(LEASE, ["operator-0"], ["/shop/"], ["--namespace=shop"]),
}


@pytest.mark.parametrize("case", FOUND.values(), ids=FOUND)
async def test_the_leader_is_found(cluster: Leading, listed: List, case: Found) -> None:
    cluster.leases, cluster.pods, cluster.denied = case.leases, case.pods, case.denied
    if "--operator-namespace=ops" in case.options:
        cluster.leases["ops"] = "operator-0_1a"
        cluster.leases["tailscale"] = "another_1a"
    assert (await listed("-o", "name", *case.options)).code == 0


def changed(**fields: object) -> Callable[[Leading], None]:
    def change(cluster: Leading) -> None:
        for name, value in fields.items():
            setattr(cluster, name, value)

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
    "a Pod that answers something else": (
        changed(answer=lambda: web.Response(text="hello")), "is no report of this operator", "use the version",
    ),
    "a Pod without that page": (changed(answer=lambda: web.Response(status=404)), "HTTP 404", "use the version"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "words", "cure"), FAILURES.values(), ids=FAILURES)
async def test_a_list_that_is_not_to_be_had_says_why_and_what_to_do(
    cluster: Leading, listed: List, make: Callable[[Leading], None], words: str, cure: str
) -> None:
    make(cluster)
    code, out, (said, to_do) = await listed()
    assert (code, out, words in said, cure in to_do) == (1, [], True, True), (said, to_do)


async def test_a_context_that_leads_nowhere_says_so(cluster: Leading, listed: List) -> None:
    code, _, err = await listed("--context", "void")
    assert code == 1
    assert err[0].startswith("tsoperator: the cluster can't be reached: ")


async def test_a_watch_appends_what_has_changed_and_outlives_the_leader(
    cluster: Leading, monkeypatch: pytest.MonkeyPatch, listed: List
) -> None:
    cluster.pods += ["operator-1"]

    def first() -> None:
        cluster.objects = [ROUTER, {**EGRESS, "ready": 2}]

    def then() -> None:
        cluster.leases["tailscale"] = ""
        cluster.leader = "operator-1"

    def last() -> None:
        cluster.leases["tailscale"] = "operator-1_2b"
        cluster.objects = [{**EGRESS, "ready": 2}]

    def stop() -> None:
        raise KeyboardInterrupt

    steps = iter([first, then, last, lambda: None, stop])
    monkeypatch.setattr("tsoperator.check.listcommand.time.sleep", lambda _: next(steps)())
    code, out, err = await listed("-n", "shop", "-w")
    rows = [" ".join(line.split()) for line in out[1:]]
    assert rows == [
        "Connector office connector - - - waiting -",
        "Service db egress db.ts.net - 1/2 ok -",
        "Service db egress db.ts.net - 2/2 ok -",
        "Connector office connector - - - gone -",
    ]
    assert (code, len(err)) == (0, 2)
    assert cluster.forwards == 2


async def test_help_and_completion_import_nothing_of_the_operator() -> None:
    code = "import sys, tsoperator.__main__; print(*sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    modules = {*(await process.communicate())[0].decode().split()}
    assert modules & {"tsoperator.app", "kubernetes", "aiohttp", "pydantic", "uvloop", "yaml"} == set()
