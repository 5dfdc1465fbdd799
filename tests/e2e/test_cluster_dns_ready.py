"""The condition `ClusterDNSReady` of a DNSConfig reports each fault of a real cluster's DNS until it is repaired."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import NamedTuple

import pytest
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY
from tsoperator.dns.canary import canary_name

from tests.e2e import faults
from tests.e2e.checking import check
from tests.e2e.cluster import Cluster, condition, dig
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed.network import DNS_SERVICE, NODE
from tests.e2e.waiting import eventually

pytestmark = pytest.mark.full

DNSCONFIG = {"kind": "dnsconfig", "metadata": {"name": "ts-dns"}}
PUBLIC = "ts.net. 60 IN SOA ns.example.org. admin.example.org. 1 2 3 4 60"
MARK, MARKS = "192.0.2.9", count()
DEAF_PORTS = ("5301", "5302", "5303")
DEAF = """
import socket, sys, time
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in sys.argv[2:]]
for each, port in zip(sockets, sys.argv[2:]):
    each.bind((sys.argv[1], int(port)))
time.sleep(100000)
"""


class Zone(NamedTuple):
    """A zone about which the operator asks the cluster's DNS, with its canary and the address of the nameserver."""

    name: str
    canary: str
    nameserver: str


@pytest.fixture(scope="module")
def zone(cluster: Cluster, nameserver: str) -> Zone:
    """The zone that the cluster's DNS forwards."""
    eventually(lambda: said(cluster) == "NamesResolve", "names that resolve", 60)
    found = cluster.look(DNSCONFIG)
    (name,) = found["status"]["clusterDNS"]["zones"]
    return Zone(name, canary_name(found["metadata"]["uid"], name), nameserver)


def said(cluster: Cluster) -> str:
    """Return the reason of the condition `ClusterDNSReady`."""
    return str(condition(cluster.look(DNSCONFIG), "ClusterDNSReady").get("reason", ""))


@contextmanager
def configured(cluster: Cluster, blocks: str) -> Iterator[None]:
    """Make CoreDNS load these server *blocks* in place of the stub domain, and restore the stub domain at the end.

    CoreDNS has loaded the blocks once a marker name resolves. Until then, nobody asks for names in the zone, because
    CoreDNS would multiply a query in a forwarding loop.
    """
    mark = f"mark{next(MARKS)}.example.org"
    block = f'{mark}:53 {{\n    template ANY ANY {{\n        answer "{mark}. 1 IN A {MARK}"\n    }}\n}}\n'
    with faults.changed_corefile(cluster, lambda corefile: faults.without_stub_domain(corefile) + blocks + block):
        eventually(lambda: dig(cluster.bed, DNS_SERVICE, mark).data == (MARK,), "the new configuration")
        yield
    eventually(lambda: not dig(cluster.bed, DNS_SERVICE, mark).data, "the old configuration")


def forwarding(to: str, more: str = "") -> str:
    return f"ts.net:53 {{\n    errors\n    forward . {to} {{\n        max_fails 0\n    }}\n{more}\n}}\n"


def templated(port: int, content: str) -> str:
    return f"ts.net:{port} {{\n    template ANY ANY {{\n{content}\n    }}\n}}\n"


def no_stub_domain(cluster: Cluster, zone: Zone) -> AbstractContextManager[None]:
    return configured(cluster, "")


def the_internets_answer(cluster: Cluster, zone: Zone) -> AbstractContextManager[None]:
    return configured(cluster, templated(53, f'rcode NXDOMAIN\nauthority "{PUBLIC}"'))


def another_nameserver(cluster: Cluster, zone: Zone) -> AbstractContextManager[None]:
    other = templated(5300, 'answer "{{ .Name }} 60 IN A 192.0.2.1"')
    return configured(cluster, forwarding("127.0.0.1:5300") + other)


def unreachable_address(cluster: Cluster, zone: Zone) -> AbstractContextManager[None]:
    return configured(cluster, forwarding("10.96.255.254"))


def loop(cluster: Cluster, zone: Zone) -> AbstractContextManager[None]:
    return configured(cluster, forwarding(DNS_SERVICE))


@contextmanager
def nameserver_at_rest(cluster: Cluster, zone: Zone) -> Iterator[None]:
    """Set the DNSConfig's number of nameserver replicas to 0."""
    cluster.patch(DNSCONFIG, {"spec": {"nameserver": {"replicas": 0}}})
    try:
        yield
    finally:
        cluster.patch(DNSCONFIG, {"spec": {"nameserver": {"replicas": None}}})


@contextmanager
def black_hole(cluster: Cluster, zone: Zone) -> Iterator[None]:
    """Make CoreDNS forward to ports that accept queries and answer none."""
    cluster.bed.daemons.start("deaf", [sys.executable, "-c", DEAF, NODE, *DEAF_PORTS], cluster.bed.machines["node"])
    try:
        with configured(cluster, forwarding(" ".join(f"{NODE}:{port}" for port in DEAF_PORTS))):
            yield
    finally:
        cluster.bed.daemons.stop("deaf")


@contextmanager
def udp_alone(cluster: Cluster, zone: Zone) -> Iterator[None]:
    """Remove the TCP port from the Service of the cluster's DNS."""
    service = cluster.get("service", "kube-dns", "kube-system")
    assert service
    ports = service["spec"]["ports"]
    cluster.patch(service, {"spec": {"ports": [port for port in ports if port["protocol"] != "TCP"]}})
    try:
        yield
    finally:
        cluster.patch(service, {"spec": {"ports": ports}})


@contextmanager
def long_memory(cluster: Cluster, zone: Zone) -> Iterator[None]:
    """Make CoreDNS cache, for an hour, the answer that the canary's name doesn't exist.

    The nameserver gives this answer while the canary is missing from its records.
    """
    cache = "    cache 30 {\n        denial 9984 3600 3600\n    }"
    with ExitStack() as stack:
        stack.enter_context(configured(cluster, forwarding(zone.nameserver, cache)))
        with faults.no_operator(cluster, NAMESPACE):
            records = cluster.get("configmap", CONFIGMAP_NAME, NAMESPACE)
            assert records
            text = re.sub(rf'"{re.escape(zone.canary)}":\[[^]]*\],?', "", records["data"][RECORDS_KEY]).replace(
                ",}", "}"
            )
            cluster.patch(records, {"data": {RECORDS_KEY: text}})
            eventually(lambda: dig(cluster.bed, zone.nameserver, zone.canary).rcode == "NXDOMAIN", "no canary", 30)
            eventually(lambda: dig(cluster.bed, DNS_SERVICE, zone.canary).rcode == "NXDOMAIN", "no canary there", 30)
            eventually(lambda: dig(cluster.bed, DNS_SERVICE, f"x{zone.canary}").rcode == "NXDOMAIN", "a new name", 30)
        yield


class Case(NamedTuple):
    fault: Callable[[Cluster, Zone], AbstractContextManager[None]]
    reason: str
    words: str
    seen: str = ""
    """A part of the fault that `tsoperator check` prints. If empty, it is *words*.

    The two can differ, because the command looks at the configuration, too.
    """

    check: str = "cluster-dns"


NO_STUB_DOMAIN = "the cluster's DNS has no stub domain for"
WRONG_SERVER = "but the nameserver is at"
CASES = [
    Case(no_stub_domain, "NotForwarded", "Its configuration doesn't forward", NO_STUB_DOMAIN),
    Case(the_internets_answer, "NotForwarded", "answered NXDOMAIN", NO_STUB_DOMAIN),
    Case(another_nameserver, "WrongAddress", "answered 192.0.2.1", WRONG_SERVER),
    Case(unreachable_address, "ServerFailure", "Its configuration forwards", WRONG_SERVER),
    Case(nameserver_at_rest, "ServerFailure", "when the operator asks it, too", "replicas is 0", "objects"),
    Case(black_hole, "NoAnswer", "didn't answer within 5 s", WRONG_SERVER),
    Case(udp_alone, "NoAnswerOverTCP", "over TCP it"),
    Case(long_memory, "CachedNegativeAnswer", "denial"),
    Case(loop, "ForwardingLoop", "to itself", WRONG_SERVER),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault.__name__)
def test_the_status_and_the_command_check_report_a_fault_of_the_clusters_dns_until_it_is_repaired(
    cluster: Cluster, zone: Zone, case: Case
) -> None:
    with case.fault(cluster, zone):
        eventually(lambda: said(cluster) == case.reason, case.reason, 130)
        told = condition(cluster.look(DNSCONFIG), "ClusterDNSReady")
        assert (told["status"], case.words in told["message"]) == ("False", True), told
        assert zone.nameserver in told["message"]
        code, wrong = check(cluster)
        assert (code, case.check in wrong) == (1, True), wrong
        assert (case.seen or case.words) in wrong[case.check]
    eventually(lambda: dig(cluster.bed, DNS_SERVICE, zone.canary).data == (zone.nameserver,), "the right answer", 60)
    eventually(lambda: said(cluster) == "NamesResolve", "names that resolve", 20)
