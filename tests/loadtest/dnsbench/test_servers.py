"""Tests of the functions that find and start servers."""

from dnsbench.process import Server
from dnsbench.queries import DOMAIN, addresses, hit, miss
from dnsbench.servers import answers, free_port

from tests.loadtest.dnsbench.conftest import NAMES


def test_the_dns_benchmark_counts_a_server_as_started_only_if_its_answer_is_right(ours: Server) -> None:
    assert answers(ours.port, hit(*list(addresses(NAMES).items())[-1]))
    assert answers(ours.port, miss(f"missing.{DOMAIN}"))
    assert not answers(ours.port, miss(next(iter(addresses(1)))))
    assert not answers(ours.port, hit(f"missing.{DOMAIN}", "100.64.0.1"))
    assert not answers(ours.port, hit(next(iter(addresses(1))), "100.64.0.99"))


def test_the_free_port_for_a_measured_server_is_below_the_ephemeral_ports_and_unused() -> None:
    port = free_port()
    assert 1024 < port < 32_768
    assert not answers(port, miss(f"missing.{DOMAIN}"))
