"""Helps tests of Ingresses and Services in groups of type ingress: waits for their statuses, and finds their hosts."""

from collections.abc import Sequence

from tsoperator.api.names import SECRET_DEVICE_ID

from tests.e2e.cluster import Cluster, Object
from tests.e2e.product import NAMESPACE
from tests.e2e.testbed import control
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.support.objects import texts


def dns_name(label: str) -> str:
    """Return the MagicDNS name of the Tailscale Service with this *label*."""
    return f"{label}.{control.DOMAIN}"


def address_of(management: Management, label: str) -> str:
    """Return the IPv4 address of the Tailscale Service with this *label*."""
    found = management.service(f"svc:{label}")
    assert found, f"no Tailscale Service svc:{label}"
    return next(str(address) for address in found["addrs"] if ":" not in address)


def shown(cluster: Cluster, obj: Object) -> list[Object]:
    """Return the load balancer entries in the status of *obj*, an Ingress or a Service."""
    return cluster.look(obj).get("status", {}).get("loadBalancer", {}).get("ingress") or []


def await_shown(cluster: Cluster, obj: Object, label: str, seconds: float = 180) -> Object:
    """Wait until the status of *obj* shows the name of its Tailscale Service, and return the entry."""

    def there() -> Object | None:
        return next((each for each in shown(cluster, obj) if each.get("hostname") == dns_name(label)), None)

    found = eventually(there, f"{dns_name(label)} in the status of {obj['metadata']['name']}", seconds)
    assert found
    return found


def primary(cluster: Cluster, group: Object, device: Peer, address: str) -> Object:
    """Wait until connections of *device* to *address* lead to a proxy of *group*, and return the proxy's Pod."""

    def leading() -> list[str]:
        peers: Sequence[Object] = [*device.status()["Peer"].values()]
        return [str(peer["ID"]) for peer in peers if f"{address}/32" in (peer.get("AllowedIPs") or ())]

    (node_id,) = eventually(leading, f"a host of {address}", 60)
    secrets = [each for each in cluster.children(group, "secrets") if "data" in each]
    (name,) = [each["metadata"]["name"] for each in secrets if texts(each).get(SECRET_DEVICE_ID) == node_id]
    return next(pod for pod in cluster.children(group, "pods") if pod["metadata"]["name"] == name)


def certificates(cluster: Cluster) -> list[str]:
    """Return the names of the Secrets, Roles and RoleBindings of certificates of Tailscale Services."""
    names = (obj["metadata"]["name"] for obj in cluster.listed("secrets,roles,rolebindings", NAMESPACE))
    return sorted(name for name in names if name.endswith(f".{control.DOMAIN}"))
