"""Funnel: only a proxy whose Service or Ingress asks for Funnel accepts connections from the Internet.

The device outside plays the part of Funnel's servers. The bed's tailnet allows every device to do so.
"""

import sys
from pathlib import Path

import pytest

from tests.e2e import funnel
from tests.e2e.cluster import Cluster, shown_hostnames
from tests.e2e.testbed import control
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.peer import PROXY, Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, exposed_service, ingress, web

TO_WEB_BY_TLS = {**BALANCED, "ports": [{"port": 443, "targetPort": 8080}]}
PUBLIC = ("public-lb", "public-shop")
CLOSED = "closed-shop"


@pytest.fixture(scope="module")
def shown(cluster: Cluster, shared_namespace: str) -> Cluster:
    """A Service and an Ingress with Funnel, and an Ingress without it, after their statuses name their devices."""
    space = shared_namespace
    objs = [
        exposed_service(space, "lb", TO_WEB_BY_TLS, funnel="true", hostname="public-lb"),
        ingress(space, "shop", host="public-shop", funnel="true"),
        ingress(space, "closed", host=CLOSED),
    ]
    cluster.apply(*web(space, "web"), *objs)
    names = [[f"{host}.{control.DOMAIN}"] for host in (*PUBLIC, CLOSED)]
    eventually(lambda: [shown_hostnames(cluster.look(obj)) for obj in objs] == names, f"{names} in the status")
    return cluster


def public_page(outside: Peer, host: str, root: Path) -> str:
    """Return the page that a client on the Internet gets from the device *host* through Funnel."""
    name = f"{host}.{control.DOMAIN}"
    peers = (outside.status().get("Peer") or {}).values()
    api = next(peer["PeerAPIURL"][0] for peer in peers if peer["DNSName"] == f"{name}.")
    script = [sys.executable, funnel.__file__, PROXY, api.removeprefix("http://"), f"{name}:443", root]
    return outside.machine.run(script, timeout=20)


@pytest.mark.parametrize("host", PUBLIC)
def test_a_client_on_the_internet_gets_the_page_of_a_service_or_an_ingress_with_funnel(
    shown: Cluster, outside: Peer, acme_root: Path, host: str
) -> None:
    eventually(lambda: public_page(outside, host, acme_root).strip() == PAGE, f"the page of {host}")


def test_an_ingress_without_funnel_is_not_reachable_from_the_internet(
    shown: Cluster, outside: Peer, acme_root: Path
) -> None:
    url = f"https://{CLOSED}.{control.DOMAIN}/"
    eventually(lambda: outside.curl("--cacert", acme_root, url).strip() == PAGE, f"the page of {url} in the tailnet")
    with pytest.raises(BedError, match="the device refuses"):
        public_page(outside, CLOSED, acme_root)
