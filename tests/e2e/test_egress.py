"""Egress: Pods reach a device through a proxy, by its MagicDNS name and by the cluster's name of the Service."""

from pathlib import Path

import pytest

from tests.e2e.cluster import Answer, Cluster, Object, dig, pod_ip
from tests.e2e.dnsprobe import Probe
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import GREETING, WEB_PORT, Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, egress_service, pod

IN_TIME = 1.0  # seconds from a ready proxy to its name
PODS = 20  # the number of Pods that try a new Service, one after the other


def reaches(cluster: Cluster, client: Object, host: str) -> bool:
    """Wait until *client* gets the device's greeting at the address or name *host*. Then return True.

    The first packets can be lost while WireGuard connects.
    """
    return eventually(lambda: cluster.curl(client, f"http://{host}:{WEB_PORT}/") == GREETING, f"the page of {host}")


def serves(cluster: Cluster, nameserver: str, wanted: Answer) -> bool:
    """Wait until *nameserver* gives the *wanted* answer for the peer's name. Then return True."""
    return eventually(lambda: dig(cluster.bed, nameserver, PEER_NAME) == wanted, f"{PEER_NAME} is {wanted}")


@pytest.fixture(scope="module")
def by_name(
    cluster: Cluster, nameserver: str, shared_namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Object:
    """An egress Service that names the peer by its MagicDNS name, which the nameserver serves already.

    The last test deletes the Service.
    """
    service = egress_service(shared_namespace, "db", tailnet_fqdn=PEER_NAME)
    assert serves(cluster, nameserver, Answer("NXDOMAIN"))
    with Probe.of(cluster.bed, nameserver, PEER_NAME, tmp_path_factory.mktemp("new")) as probe:
        cluster.apply(service)
        address = pod_ip(cluster.proxy(service))
        probe.wait_for(lambda seen: seen.addresses == [address], IN_TIME)
    return service


def test_a_pod_reaches_a_device_by_its_magicdns_name(cluster: Cluster, client: Object, by_name: Object) -> None:
    ip = pod_ip(cluster.proxy(by_name))
    eventually(lambda: cluster.run_in(client, "dig", "+short", PEER_NAME).split() == [ip], "the proxy's address")
    assert reaches(cluster, client, PEER_NAME)


def test_a_pod_reaches_a_device_by_the_name_of_the_egress_service_in_the_cluster(
    cluster: Cluster, client: Object, by_name: Object
) -> None:
    metadata = by_name["metadata"]
    assert reaches(cluster, client, f"{metadata['name']}.{metadata['namespace']}.svc.cluster.local")


def test_a_pod_reaches_a_device_by_an_egress_service_that_names_the_address_of_the_device(
    cluster: Cluster, client: Object, shared_namespace: str, outside: Peer
) -> None:
    service = egress_service(shared_namespace, "printer", tailnet_ip=outside.address)
    cluster.apply(service)
    cluster.proxy(service)
    assert reaches(cluster, client, f"printer.{shared_namespace}.svc.cluster.local")


def test_the_first_connection_through_an_egress_service_succeeds_as_soon_as_its_status_says_ready(
    cluster: Cluster, namespace: str, outside: Peer
) -> None:
    pods = [pod(namespace, f"client{number}", {"command": ["sleep", "infinity"]}) for number in range(PODS)]
    cluster.apply(*pods)
    wait = ("-n", namespace, "wait", "--timeout=60s")
    cluster.bed.kubectl(*wait, "pods", "--all", "--for=condition=Ready", timeout=70)
    cluster.apply(egress_service(namespace, "printer", tailnet_ip=outside.address))
    cluster.bed.kubectl(*wait, "service/printer", "--for=condition=TailscaleProxyReady", timeout=70)
    url = f"http://printer.{namespace}.svc.cluster.local:{WEB_PORT}/"
    assert [cluster.curl(pod, url) for pod in pods] == [GREETING] * PODS


def test_an_event_names_the_writer_that_keeps_changing_the_external_name_of_an_egress_service(
    cluster: Cluster, namespace: str
) -> None:
    service = egress_service(namespace, "printer", tailnet_ip="100.64.99.99")
    cluster.apply(service)

    def named() -> bool:
        cluster.apply(service)
        events = cluster.listed("events", namespace)
        said = [event["message"] for event in events if event["reason"] == "ExternalNameOverwritten"]
        return any(message.startswith("kubectl-client-side-apply keeps setting spec.externalName") for message in said)

    eventually(named, "an Event that names kubectl")


def test_the_name_of_a_device_resolves_to_the_new_pod_after_the_pod_of_its_proxy_is_replaced(
    cluster: Cluster, client: Object, by_name: Object, nameserver: str, tmp_path: Path
) -> None:
    old = cluster.proxy(by_name)
    with Probe.of(cluster.bed, nameserver, PEER_NAME, tmp_path) as probe:
        cluster.delete("pod", old["metadata"]["name"], NAMESPACE)
        replaced = lambda: cluster.proxy(by_name)["metadata"]["uid"] != old["metadata"]["uid"]  # noqa: E731
        eventually(replaced, "another proxy Pod")
        probe.wait_for(lambda seen: seen.addresses == [pod_ip(cluster.proxy(by_name))], IN_TIME)
        answers = [(seen.rcode, list(seen.addresses)) for seen in probe.seen()]
    new = cluster.proxy(by_name)
    assert answers == [("NOERROR", [pod_ip(old)]), ("NOERROR", []), ("NOERROR", [pod_ip(new)])]
    assert reaches(cluster, client, PEER_NAME)


def test_a_deleted_egress_service_leaves_no_objects_and_no_device(
    cluster: Cluster, by_name: Object, nameserver: str, management: Management
) -> None:
    hostname = f"{by_name['metadata']['namespace']}-{by_name['metadata']['name']}"
    eventually(lambda: management.device(hostname), "the device")
    cluster.remove(by_name)
    assert serves(cluster, nameserver, Answer("NXDOMAIN"))
    eventually(lambda: management.device(hostname) is None, "the device is gone")
