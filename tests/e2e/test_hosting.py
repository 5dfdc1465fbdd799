"""A ProxyGroup of type ingress: devices reach Ingresses and Services through it, even while its proxies restart."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, Object, identity
from tests.e2e.groups import await_group, devices
from tests.e2e.hosting import address_of, await_shown, certificates, dns_name, primary, shown
from tests.e2e.load import Load
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, exposed_service, ingress, proxy_group, web

FRONT = proxy_group("front", type="ingress", replicas=2)
PORTS = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "other", "port": 9090, "targetPort": 8080}]
BACK = 20.0  # seconds in which connections may fail after the tailscaled that serves was killed
AFTERWARDS = 10.0  # seconds that the load goes on for
RATE = 10.0  # connections a second to each target

Say = Callable[[object], None]


@pytest.fixture(scope="module")
def front(cluster: Cluster) -> Iterator[Object]:
    """A group of two proxies."""
    cluster.apply(FRONT)
    await_group(cluster, FRONT, 2)
    yield FRONT
    cluster.remove(FRONT)


@pytest.fixture(scope="module")
def space(cluster: Cluster, front: Object, shared_namespace: str) -> str:
    """A namespace with the Service ``web``. At the end, the objects in the namespace are deleted before the group."""
    cluster.apply(*web(shared_namespace, "web"))
    return shared_namespace


@pytest.fixture(scope="module")
def balanced(cluster: Cluster, space: str) -> Object:
    """A Service with two ports that both proxies expose."""
    service = exposed_service(space, "lb", {**BALANCED, "ports": PORTS}, proxy_group="front", hostname="ha-lb")
    cluster.apply(service)
    await_shown(cluster, service, "ha-lb")
    return service


@pytest.fixture(scope="module")
def shop(cluster: Cluster, space: str) -> Object:
    """An Ingress that both proxies expose, and that redirects plain HTTP."""
    return exposed(cluster, ingress(space, "shop", "ha-shop", proxy_group="front", http_redirect="true"))


def exposed(cluster: Cluster, obj: Object) -> Object:
    """Apply an Ingress, wait until its status shows its name, and return it.

    The status shows the name after there is a certificate.
    """
    cluster.apply(obj)
    await_shown(cluster, obj, obj["spec"]["tls"][0]["hosts"][0])
    return obj


@pytest.fixture
def load(balanced: Object, shop: Object, management: Management, outside: Peer) -> Iterator[Load]:
    """The `Load` with which a device opens connections to the Service's address, and by HTTPS to the Ingress."""
    targets = [f"http://{address_of(management, 'ha-lb')}:80", f"https://{dns_name('ha-shop')}:443"]
    with Load.from_device(outside, f"{PAGE}\n", targets, RATE * len(targets)) as load:
        yield load


def go_on(load: Load) -> None:
    """Let the load continue for as long as a change can have effects, and then stop it."""
    until = time.time() + AFTERWARDS
    eventually(lambda: load.seen()[-1].at > until, "load for a while")
    load.end()


def visit(device: Peer, url: str, *words: str | Path) -> str:
    """Return the page at *url*, as soon as *device* gets it. The first packets can be lost.

    In a cluster without IPv6, the IPv6 address of a Service leads nowhere. curl then soon tries the IPv4 address, but
    the SOCKS5 server that `Peer.curl` uses would try only one address.
    """
    device.ask_magic_dns()
    command = ["curl", "-sS", "--fail", "--max-time", "3", *words, url]
    return eventually(lambda: device.machine.run(command), f"an answer of {url}").strip()


def test_a_device_reaches_each_port_of_a_service_in_a_group_by_its_name_and_its_address(
    balanced: Object, management: Management, outside: Peer
) -> None:
    for host in (dns_name("ha-lb"), address_of(management, "ha-lb")):
        for port in PORTS:
            assert visit(outside, f"http://{host}:{port['port']}/") == PAGE


def test_the_status_of_a_service_in_a_group_shows_the_address_of_its_tailscale_service(
    cluster: Cluster, balanced: Object, management: Management
) -> None:
    (entry,) = shown(cluster, balanced)
    assert (entry["hostname"], entry["ip"]) == (dns_name("ha-lb"), address_of(management, "ha-lb"))


def test_a_device_gets_the_page_of_an_ingress_in_a_group_with_a_certificate_of_the_trusted_authority(
    shop: Object, outside: Peer, acme_root: Path
) -> None:
    assert visit(outside, f"https://{dns_name('ha-shop')}/", "--cacert", acme_root) == PAGE


def test_a_plain_http_request_to_an_ingress_in_a_group_is_redirected_to_https(
    shop: Object, outside: Peer, acme_root: Path
) -> None:
    words: list[str | Path] = ["--location", "--cacert", acme_root, "--write-out", "%{num_redirects}"]
    assert visit(outside, f"http://{dns_name('ha-shop')}/", *words).split("\n") == [PAGE, "1"]


def test_a_device_gets_the_page_of_an_ingress_with_an_http_endpoint_by_plain_http(
    cluster: Cluster, space: str, outside: Peer
) -> None:
    exposed(cluster, ingress(space, "tea", "ha-tea", proxy_group="front", http_endpoint="enabled"))
    assert visit(outside, f"http://{dns_name('ha-tea')}/") == PAGE


def test_no_new_connection_fails_while_a_group_of_type_ingress_is_restarted(
    cluster: Cluster, front: Object, load: Load, say: Say
) -> None:
    old, began = {uid(pod) for pod in cluster.children(front, "pods")}, time.time()
    cluster.bed.kubectl("-n", NAMESPACE, "rollout", "restart", "statefulset/front")
    new = {uid(pod) for pod in await_group(cluster, front, 2, 240)}
    took = time.time() - began
    go_on(load)
    say(f"rollout restart of 2 in {took:.0f} s: {load.since(began)}")
    assert not old & new
    outcome = load.since(began)
    # A connection that is open at the moment when another proxy takes over breaks. Each proxy ends once.
    assert not [each for each in outcome.failed if "no connection" in each.error], str(outcome)
    assert outcome.moments <= 2


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def test_when_tailscaled_on_the_primary_host_is_killed_connections_fail_only_for_seconds(
    cluster: Cluster, front: Object, load: Load, management: Management, outside: Peer, say: Say
) -> None:
    pod = primary(cluster, front, outside, address_of(management, "ha-lb"))
    began = time.time()
    cluster.run_in(pod, "pkill", "-KILL", "tailscaled")
    eventually(lambda: identity(cluster.look(pod)) > identity(pod), "its container's restart")
    await_group(cluster, front, 2)
    go_on(load)
    say(f"the primary's tailscaled killed: {load.since(began)}")
    assert load.since(began).seconds <= BACK


def test_another_proxy_serves_with_the_same_certificate_once_the_first_proxy_is_gone(
    cluster: Cluster, front: Object, shop: Object, management: Management, outside: Peer, acme_root: Path
) -> None:
    address, url = address_of(management, "ha-shop"), f"https://{dns_name('ha-shop')}/"
    words: list[str | Path] = ["--cacert", acme_root, "--output", "/dev/null", "--write-out", "%{certs}"]
    first, before = primary(cluster, front, outside, address), visit(outside, url, *words)
    cluster.delete("pod", first["metadata"]["name"], NAMESPACE)
    name = first["metadata"]["name"]
    eventually(lambda: primary(cluster, front, outside, address)["metadata"]["name"] != name, "another host")
    assert visit(outside, url, *words) == before
    await_group(cluster, front, 2)


def test_an_event_reports_hosts_without_approval_and_the_service_works_after_their_approval(
    cluster: Cluster, space: str, management: Management, outside: Peer, say: Say
) -> None:
    service = exposed_service(space, "held", BALANCED, proxy_group="front", hostname="ha-held")
    management.hold_hosts({})
    try:
        cluster.apply(service)
        eventually(lambda: "svc:ha-held" in " ".join(told(cluster, space, "HostsNotApproved")), "an Event")
        url = f"http://{address_of(management, 'ha-held')}/"
        with pytest.raises(BedError):
            outside.curl(url, timeout=2)
        for node_id in management.hosts("svc:ha-held"):
            management.approve("svc:ha-held", node_id)
        began = time.time()
        assert visit(outside, url) == PAGE
        say(f"served {time.time() - began:.1f} s after the approval")
    finally:
        management.release_hosts()


def told(cluster: Cluster, namespace: str, reason: str) -> list[str]:
    return [event["message"] for event in cluster.listed("events", namespace) if event["reason"] == reason]


def test_deleted_ingresses_and_services_leave_nothing_in_the_tailnet_and_no_certificate(
    cluster: Cluster, space: str, management: Management, say: Say
) -> None:
    ours = [each["name"] for each in management.services() if each["name"].startswith("svc:ha-")]
    assert ours
    began = time.time()
    for kind in ("services", "ingresses"):
        cluster.bed.kubectl("-n", space, "delete", kind, "--all", "--timeout=90s", timeout=100)
    say(f"{len(ours)} objects gone after {time.time() - began:.1f} s")
    left = [each["name"] for each in management.services() if each["name"] in ours]
    assert (left, certificates(cluster)) == ([], [])


def test_a_deleted_group_of_type_ingress_leaves_no_device(
    cluster: Cluster, front: Object, management: Management
) -> None:
    assert devices(management, "front-") == ["front-0", "front-1"]
    cluster.remove(front)
    assert devices(management, "front-") == []
