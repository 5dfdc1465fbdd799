"""Tests of how servers are found and started."""

import socket
from pathlib import Path

import pytest
from dnsbench.errors import BenchError
from dnsbench.process import Server
from dnsbench.queries import DOMAIN, addresses, hit, miss
from dnsbench.servers import Installed, Kind, answers, free_port

from tests.loadtest.dnsbench.conftest import NAMES, SERVER_CORE


@pytest.mark.parametrize(("kind", "package"), [(Kind.KNOT, "knot"), (Kind.NSD, "nsd"), (Kind.ECHO, "gcc libc6-dev")])
def test_a_missing_program_is_named_with_its_package(
    kind: Kind, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match=rf"{kind} isn't here \(apt-get install {package}\)"):
        Installed.find({Kind.OURS, kind}, None)


@pytest.mark.parametrize("go", [None, Path("/nowhere/k8s-nameserver")])
def test_the_go_server_is_asked_for(go: Path | None) -> None:
    with pytest.raises(BenchError, match="--go-nameserver PATH"):
        Installed.find({Kind.GO}, go)


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_port_that_is_taken_is_not_free(kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(BenchError, match="no port between"):
            free_port(range(port, port + 1))


def test_a_server_answers_if_the_answer_is_right(ours: Server) -> None:
    assert answers(ours.port, hit(*list(addresses(NAMES).items())[-1]))
    assert answers(ours.port, miss(f"missing.{DOMAIN}"))
    assert not answers(ours.port, miss(next(iter(addresses(1)))))
    assert not answers(ours.port, hit(f"missing.{DOMAIN}", "100.64.0.1"))
    assert not answers(ours.port, hit(next(iter(addresses(1))), "100.64.0.99"))


def test_a_free_port_is_below_the_ephemeral_ones_and_does_not_answer() -> None:
    port = free_port()
    assert 1024 < port < 32_768
    assert not answers(port, miss(f"missing.{DOMAIN}"))


def test_a_server_that_does_not_start_says_so(tmp_path: Path) -> None:
    with (
        pytest.raises(BenchError, match=r"NSD with 5 names: it ended with code 1"),
        Installed({Kind.NSD: "false"}).serve(Kind.NSD, 5, tmp_path, SERVER_CORE),
    ):
        pass
