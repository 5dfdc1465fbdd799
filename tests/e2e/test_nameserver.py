"""The nameserver gives right answers to real clients, and serves changed records at once."""

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY, Records, parse, render
from tsoperator.api.objects import CONFIGMAP, Key
from tsoperator.dns.cluster.results import StubDomain
from tsoperator.dns.cluster.stubdomains import Edited, with_zones
from tsoperator.kube.client import KubeClient

from tests.e2e.cluster import Answer, Cluster, dig
from tests.e2e.dnsprobe import Probe, Seen
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.commands import Word
from tests.e2e.testbed.control import DOMAIN
from tests.e2e.testbed.network import DNS_SERVICE
from tests.e2e.testbed.parts import program
from tests.e2e.waiting import eventually

DNSMASQ = ("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
           "--pid-file=", "--bind-interfaces")  # fmt: skip
KUBE_DNS = ("--cache-size=1000", "--no-negcache", "--dns-loop-detect")  # the flags with which kube-dns starts dnsmasq
COREFILE = """
ts.net:53 {{
    bind {address}
    errors
    cache 30
    forward . {nameserver} {{
        force_tcp
    }}
}}
"""
BOTH, ONLY6, MOVED = (f"{label}.{DOMAIN}" for label in ("both", "only6", "moved"))
RECORDS = Records(ip4={BOTH: ["192.0.2.1", "192.0.2.2"]}, ip6={BOTH: ["2001:db8::1"], ONLY6: ["2001:db8::2"]}, serial=7)


@pytest.fixture(scope="module")
def without_operator(cluster: Cluster, nameserver: str) -> Iterator[None]:
    """Remove the operator, so that only the test writes records."""
    cluster.scale_operator(0)
    yield
    cluster.scale_operator(2)


@pytest.fixture(scope="module")
def servers(bed: Bed, nameserver: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The addresses of DNS servers that forward ts.net to the nameserver: the cluster's, and two more on the node."""
    found = {"CoreDNS": DNS_SERVICE, "dnsmasq": "127.0.0.53", "CoreDNS by TCP": "127.0.0.54"}
    corefile = tmp_path_factory.mktemp("coredns") / "Corefile"
    corefile.write_text(COREFILE.format(address=found["CoreDNS by TCP"], nameserver=nameserver))
    coredns: list[Word] = [program(bed.paths, "coredns"), "-conf", corefile]
    words = [*DNSMASQ, *KUBE_DNS, f"--listen-address={found['dnsmasq']}", *stub_domain_flags(nameserver)]
    bed.daemons.start("coredns-by-tcp", coredns, bed.machines["node"])
    bed.daemons.start("dnsmasq", words, bed.machines["node"])
    for name, address in found.items():
        eventually(lambda: dig(bed, address, "ts.net", "SOA").data, f"an answer of {name}")  # noqa: B023 (used at once)
    yield found
    for daemon in ("coredns-by-tcp", "dnsmasq"):
        bed.daemons.stop(daemon)


def stub_domain_flags(nameserver: str) -> Iterator[str]:
    """Yield the command-line flags for dnsmasq that kube-dns makes from the operator's stub domains."""
    edited = with_zones(None, None, "stubDomains", StubDomain(("ts.net",), (nameserver,)), "tailscale")
    assert isinstance(edited, Edited)
    for zone, addresses in json.loads(edited.text or "").items():
        for address in addresses:
            yield from ("--server", f"/{zone}/{address}")


@pytest.fixture(scope="module")
def records(cluster: Cluster, nameserver: str, without_operator: None) -> None:
    """Records of every kind. The fixture writes them into the operator's ConfigMap."""
    put(cluster, RECORDS)
    eventually(lambda: dig(cluster.bed, nameserver, BOTH).data, f"records of {BOTH}")


def put(cluster: Cluster, records: Records) -> None:
    configmap = cluster.get("configmap", CONFIGMAP_NAME, NAMESPACE)
    assert configmap
    zones = parse(configmap["data"][RECORDS_KEY]).zones
    configmap["data"][RECORDS_KEY] = render(records.model_copy(update={"zones": zones}))
    cluster.apply({name: configmap[name] for name in ("apiVersion", "kind", "metadata", "data")})


class Case(NamedTuple):
    name: str
    rtype: str
    answer: Answer


CASES = {
    "A": Case(BOTH, "A", Answer("NOERROR", ("192.0.2.1", "192.0.2.2"))),
    "A, other case": Case(BOTH.upper(), "A", Answer("NOERROR", ("192.0.2.1", "192.0.2.2"))),
    "AAAA": Case(BOTH, "AAAA", Answer("NOERROR", ("2001:db8::1",))),
    "A of a name with AAAA only": Case(ONLY6, "A", Answer("NOERROR")),
    "TXT": Case(BOTH, "TXT", Answer("NOERROR")),
    "HTTPS": Case(BOTH, "HTTPS", Answer("NOERROR")),
    "no such name": Case(f"nothing.{DOMAIN}", "A", Answer("NXDOMAIN")),
}


@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
@pytest.mark.parametrize("server", ["CoreDNS", "dnsmasq", "CoreDNS by TCP"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_dns_server_that_forwards_to_the_nameserver_passes_on_its_answers(
    bed: Bed, records: None, servers: Mapping[str, str], case: Case, server: str, transport: str
) -> None:
    assert dig(bed, servers[server], case.name, case.rtype, transport) == case.answer


@pytest.mark.parametrize("rtype", ["SOA", "NS"])
@pytest.mark.parametrize("server", ["CoreDNS", "dnsmasq"])
def test_a_dns_server_that_forwards_to_the_nameserver_passes_on_the_soa_and_ns_records_of_the_zone(
    bed: Bed, nameserver: str, records: None, servers: Mapping[str, str], server: str, rtype: str
) -> None:
    itself = dig(bed, nameserver, "ts.net", rtype)
    assert itself.data
    eventually(lambda: dig(bed, servers[server], "ts.net", rtype) == itself, f"{rtype} as the nameserver has it", 40)


QTYPES = ("A", "AAAA", "ANY", "CNAME", "HTTPS", "TYPE1000")
NAMES = {
    "both families": BOTH,
    "AAAA only": ONLY6,
    "names below it": DOMAIN,
    "apex": "ts.net",
    "missing": f"nothing.{DOMAIN}",
    "below a name": f"x.{BOTH}",
}


@pytest.mark.parametrize("qtype", QTYPES)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_coredns_gives_the_same_answer_as_the_nameserver(
    bed: Bed, nameserver: str, records: None, name: str, qtype: str
) -> None:
    itself = dig(bed, nameserver, name, qtype)
    assert itself.rcode in {"NOERROR", "NXDOMAIN"}
    for _ in range(2):  # the second answer comes from the cache of CoreDNS
        assert dig(bed, DNS_SERVICE, name, qtype) == itself


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_clusters_dns_answers_a_question_in_mixed_case_with_the_name_in_the_same_case(
    bed: Bed, records: None, case: Case
) -> None:
    chance = random.Random(0x20)
    for _ in range(2):  # the second time CoreDNS has the answer in its cache, for another spelling
        name = "".join(chance.choice((letter.lower(), letter.upper())) for letter in case.name)
        assert dig(bed, DNS_SERVICE, name, case.rtype) == case.answer
        assert asked(bed, DNS_SERVICE, name, case.rtype) == f"{name}."


def asked(bed: Bed, server: str, name: str, rtype: str) -> str:
    """Ask *server* for *name*, and return the name as the question section of the response spells it."""
    words = ["dig", "+time=1", "+tries=1", "+noall", "+question", f"@{server}", name, rtype]
    (question,) = [line for line in bed.machines["node"].run(words, timeout=10).splitlines() if line.endswith(rtype)]
    return question.removeprefix(";").split()[0]


async def test_the_nameserver_serves_a_change_of_its_configmap_at_once(
    bed: Bed,
    nameserver: str,
    without_operator: None,
    api: KubeClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = Key(NAMESPACE, CONFIGMAP_NAME)
    delays = []
    with Probe.of(bed, nameserver, MOVED, tmp_path) as probe:
        for number in range(1, 21):
            address = f"192.0.2.{number}"
            document = render(Records(ip4={MOVED: [address]}, zones=["ts.net"], serial=1000 + number))
            written = time.monotonic()
            await api.patch(CONFIGMAP, key, {"data": {RECORDS_KEY: document}})
            seen = await asyncio.to_thread(probe.wait_for, partial(is_at, address), 10)
            delays.append(seen.at - written)
    p50 = statistics.median(delays)
    with capsys.disabled():
        sys.stdout.write(f"\nConfigMap written → served: p50 {p50 * 1000:.0f} ms, worst {max(delays) * 1000:.0f} ms\n")
    assert p50 < 0.3


def is_at(address: str, seen: Seen) -> bool:
    return list(seen.addresses) == [address]
