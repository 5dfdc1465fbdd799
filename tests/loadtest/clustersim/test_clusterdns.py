import pytest
from clustersim.clusterdns import stub_domains
from clustersim.dnsclient import ask_tcp, ask_udp
from clustersim.furniture import COREDNS, COREFILE
from clustersim.inside import place
from clustersim.objects import CONFIGMAP
from clustersim.processes import free_port
from clustersim.programs import Program
from clustersim.sim import SimOptions, cluster_sim
from dnslib import RR, DNSRecord

from tests.support.dnsserver import dns_server

STUB = "tail1234.ts.net:53 {\n    errors\n    cache 30 {\n        denial 9984 1\n    }\n    forward . 10.96.0.2\n}\n"
NAME = "db.tail1234.ts.net"


def respond(query: bytes, _: str) -> bytes:
    reply = DNSRecord.parse(query).reply()
    reply.add_answer(*RR.fromZone(f"{NAME} A 192.0.2.1"))
    return bytes(reply.pack())


async def test_the_clusters_dns_forwards_a_stub_domain_and_knows_no_other_names() -> None:
    port = free_port()
    async with dns_server(respond) as nameserver:
        options = SimOptions(
            dns_listen=f"127.0.0.1:{port}", programs=(Program("nameserver", ports={53: nameserver.port}),)
        )
        async with cluster_sim(options) as sim:
            assert (await ask_udp(port, NAME, "A")).rcode == "NXDOMAIN"
            data = {"data": {"Corefile": f"{COREFILE}{STUB}"}}
            sim.store.merge(CONFIGMAP, "kube-system", COREDNS["metadata"]["name"], data)
            for ask in (ask_udp, ask_tcp):
                assert (await ask(port, NAME, "A")).addresses == {"192.0.2.1"}
            assert (await ask_tcp(port, "db.example.org", "A")).rcode == "NXDOMAIN"


@pytest.mark.parametrize(
    ("corefile", "zones"), [(COREFILE, []), (STUB, ["tail1234.ts.net"]), (COREFILE + STUB, ["tail1234.ts.net"])]
)
def test_a_server_block_that_forwards_another_zone_than_the_root_zone_is_a_stub_domain(
    corefile: str, zones: list[str]
) -> None:
    assert [zone for zone in stub_domains(corefile) if zone] == zones


@pytest.mark.parametrize(
    ("host", "port", "found"),
    [
        ("10.96.0.2", 53, ("127.0.0.1", 5300)),
        ("10.96.0.2", 80, ("10.96.0.2", 80)),
        ("192.0.2.1", 53, ("192.0.2.1", 53)),
    ],
)
def test_in_the_simulated_cluster_only_the_dns_port_of_a_cluster_ip_leads_to_the_nameserver(
    host: str, port: int, found: tuple[str, int]
) -> None:
    assert place(host, port, 5300) == found
