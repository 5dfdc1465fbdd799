"""A proxy whose state Secret somebody deletes comes back under its old name, and leaves no second device."""

import pytest
from tsoperator.api.names import SECRET_CURRENT_PROFILE, SECRET_DEVICE_ID

from tests.e2e.cluster import Cluster, Object, shown_hostnames
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed import control
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, PAGE, exposed_service, web

SECRET_DELETED = "the Secret of a proxy was deleted"


def device_name(service: Object) -> str:
    metadata = service["metadata"]
    return f"{metadata['namespace']}-{metadata['name']}.{control.DOMAIN}"


@pytest.fixture
def service(cluster: Cluster, namespace: str) -> Object:
    """An exposed Service whose status names its device."""
    made = exposed_service(namespace, "lb", BALANCED)
    cluster.apply(*web(namespace, "web"), made)
    cluster.device_proxy(made)
    name = device_name(made)
    eventually(lambda: shown_hostnames(cluster.look(made)) == [name], f"{name} in the status")
    return made


def check_whole(cluster: Cluster, service: Object, management: Management) -> bool:
    """Check that the proxy of a Service has its state again, and that its only device has the name in the status."""
    (secret,) = cluster.children(service, "secrets")
    assert {SECRET_DEVICE_ID, SECRET_CURRENT_PROFILE} <= secret["data"].keys()
    names = [device["name"] for device in management.devices()]
    ours = [name for name in names if name.startswith(service["metadata"]["namespace"])]
    assert (ours, shown_hostnames(cluster.look(service))) == ([device_name(service)], [device_name(service)])
    return True


@pytest.mark.parametrize("restarted", [False, True], ids=["the Pod runs on", "the Pod is deleted too"])
def test_a_proxy_whose_secret_was_deleted_comes_back_with_its_old_name(
    cluster: Cluster, service: Object, outside: Peer, management: Management, restarted: bool
) -> None:
    (secret,), (pod,) = cluster.children(service, "secrets"), cluster.children(service, "pods")
    name = device_name(service)
    with cluster.bed.plane.excused(SECRET_DELETED):
        cluster.delete("secret", secret["metadata"]["name"], NAMESPACE)
        if restarted:
            cluster.delete("pod", pod["metadata"]["name"], NAMESPACE)
        eventually(lambda: check_whole(cluster, service, management), f"{name} and no other device", 40)
    eventually(lambda: outside.curl(f"http://{name}/").strip() == PAGE, f"the page of {name}")
