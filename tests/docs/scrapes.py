"""What Prometheus reads of the two programs, once all that they show has happened."""

import re
import socket

import aiohttp
from clustersim.processes import free_port
from prometheus_client.parser import text_string_to_metric_families
from tsnameserver.metrics import Metrics, metrics_pages
from tsnameserver.reloads import Reloads, Watched
from tsnameserver.sockets import Endpoint

from tests.nameserver.conftest import running_server
from tests.nameserver.samples import wire
from tests.support.manifests import connector, dnsconfig, group_egress, proxy_group
from tests.support.operator import new_world, running_operator

LATE = ("preflight", "devices", "egress_entries", "egress_probes_total", "cluster_dns_ready")
"""The metrics of the operator that show nothing before something has happened."""


async def operator_metrics() -> str:
    """Return the page of an operator that has made proxies, one of them for a ProxyGroup, and a nameserver."""
    address = f"127.0.0.1:{free_port()}"

    async def page() -> str:
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}/metrics") as response:
            text = await response.text()
        return text if all(f"tsoperator_{name}{{" in text for name in LATE) else ""

    servers = ("127.0.0.1:9",)  # where nobody listens
    async with new_world() as world, running_operator(world, health_address=address, cluster_dns=servers):
        nameserver = dnsconfig(service={"clusterIP": "127.0.0.1"})
        await world.apply(connector(), proxy_group(), group_egress(), nameserver)
        return await world.eventually(page)


async def nameserver_metrics() -> str:
    """Return the page of a nameserver that has answered a query, and that had one failure of each kind."""
    async with running_server(Endpoint("127.0.0.1", 0)) as server:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(30)
            client.sendto(wire("db.tail1234.ts.net"), (server.host, server.port))
            client.recv(512)
        return metrics_pages(Metrics([server.udp], [server.tcp], Reloads(), Watched(), {"tcp": 1}))["/metrics"]().text


def families(page: str) -> set[str]:
    """Return the names of the metrics of a page, without the times at which counters began."""
    found = re.findall(r"^# TYPE (\S+)", page, flags=re.MULTILINE)
    return {name for name in found if not name.endswith("_created")}


def series(page: str) -> dict[str, set[str]]:
    """Return the labels of the series of a page, by the names that queries give them."""
    samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
    return {sample.name: {*sample.labels} for sample in samples}
