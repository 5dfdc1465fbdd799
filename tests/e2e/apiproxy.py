"""The API server proxy of the release: its modes, its Pod, its device, and grants for its callers."""

import json
import socket
import struct
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from operatorbench.audit import entries
from tsoperator.api.names import SECRET_HTTPS_ENDPOINT
from tsoperator.api.rules import apiserver_proxy_name

from tests.e2e import product
from tests.e2e.cluster import Cluster, Object, is_ready
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.testbed.control import DOMAIN
from tests.e2e.testbed.management import Device, Grant, Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually
from tests.support.objects import texts
from tests.support.rbac import Conduct, Permission, permissions

HOST = "tailscale-operator"
"""The name of the operator's own device, as the chart gives it."""
FQDN = f"{HOST}.{DOMAIN}"
SECRET = "operator"
NAME = apiserver_proxy_name(SECRET)
TAG = "tag:k8s-operator"
CAPABILITY = "tailscale.com/cap/kubernetes"
SOCKET = "/var/run/tailscale/tailscaled.sock"

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def grant(source: str, *groups: str, **rule: Any) -> Grant:
    """Return a grant by which the API server regards *source*, a login name or a tag, as a member of *groups*.

    *rule* has more fields for the rule in the grant.
    """
    return {"src": [source], "dst": [TAG], "app": {CAPABILITY: [{"impersonate": {"groups": [*groups]}, **rule}]}}


def granted(cluster: Cluster, caller: Peer) -> list[Any]:
    """Return the rules that grants give *caller*, as the proxy's tailscaled knows them now."""
    tailscale = ["tailscale", f"--socket={SOCKET}", "whois", "--json", f"{caller.address}:1"]
    words = ["-n", NAMESPACE, "exec", f"deployment/{NAME}", "-c", "tailscale", "--", *tailscale]
    capabilities = json.loads(cluster.bed.kubectl(*words)).get("CapMap") or {}
    return capabilities.get(CAPABILITY) or []


def upgrade(cluster: Cluster, images: ProductImages, mode: str, http: str = "false", hostname: str = HOST) -> None:
    """Upgrade the release to this *mode* of the API server proxy, and to this *hostname* of the proxy's device.

    If *http* is "true", the proxy also serves plain HTTP.
    """
    values = {**product.CREDENTIALS, **product.image_values(images)}
    values["operatorConfig"] = {**values["operatorConfig"], "hostname": hostname}
    product.install(cluster.bed, product.CHART, {**values, "apiServerProxyConfig": {"mode": mode, "http": http}})


def switch(cluster: Cluster, images: ProductImages, mode: str, http: str = "false") -> None:
    """Upgrade the release to another *mode* of the API server proxy, and wait for a Pod that has this mode.

    If *mode* is "false", wait until there is no Pod. *http* is as for `upgrade`.
    """
    before = [each["metadata"]["uid"] for each in pods(cluster)]
    # Helm removes the rights of the old mode before the operator replaces the Pod.
    with cluster.bed.plane.excused("the API server proxy changed its mode"):
        upgrade(cluster, images, mode, http)
        if mode == "false":
            eventually(lambda: not pods(cluster), "the end of the proxy's Pod", 30)
        else:
            eventually(lambda: ready_pod(cluster)["metadata"]["uid"] not in before, "a Pod in the new mode", 60)


def remove(cluster: Cluster, images: ProductImages, management: Management) -> None:
    """Turn the proxy off. Then delete its state Secret, its device and all grants, which would remain otherwise."""
    switch(cluster, images, "false")
    cluster.delete("secret", SECRET, NAMESPACE)
    if device := management.device(HOST):
        management.delete(device["nodeId"])
    management.replace_grants()


def pods(cluster: Cluster) -> list[Object]:
    """Return the Pods of the proxy, including those that are terminating."""
    found = cluster.listed("pods", NAMESPACE)
    return [pod for pod in found if pod["spec"]["serviceAccountName"] == NAME]


def ready_pod(cluster: Cluster) -> Object:
    """Wait until the proxy has one Pod, which is ready, and return it."""

    def ready() -> Object | None:
        found = pods(cluster)
        return found[0] if len(found) == 1 and is_ready(found[0]) else None

    pod = eventually(ready, "one ready Pod of the API server proxy", 60)
    assert pod
    return pod


def device(management: Management) -> Device:
    """Return the proxy's device."""
    found = management.device(HOST)
    assert found, f"no device {HOST}"
    return found


def identity(management: Management) -> tuple[str, Sequence[str]]:
    """Return the node ID and the addresses of the proxy's device."""
    found = device(management)
    return found["nodeId"], found["addresses"]


def serves(cluster: Cluster) -> bool:
    """Tell whether the proxy's tailscaled has begun to serve HTTPS since the last start of its container."""
    return texts(cluster.get("secret", SECRET, NAMESPACE) or {}).get(SECRET_HTTPS_ENDPOINT) == FQDN


def told(cluster: Cluster) -> list[str]:
    """Return the messages of the Events on the operator's Deployment."""
    events = cluster.listed("events", NAMESPACE)
    about = [each for each in events if each["involvedObject"]["kind"] == "Deployment"]
    return [each["message"] for each in about if each["involvedObject"]["name"] == "operator"]


def conduct(cluster: Cluster, since: datetime, account: str = NAME) -> tuple[Conduct, set[Permission]]:
    """Return the requests of a proxy's ServiceAccount *account* after *since*, and the account's permissions."""
    logged = entries(cluster.bed.plane.audit_log)
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    theirs = [each for each in logged if each["user"]["username"] == user]
    later = [each for each in theirs if datetime.fromisoformat(each["requestReceivedTimestamp"]) > since]
    return Conduct.of(NAMESPACE, "", later), _granted(cluster, account)


def _granted(cluster: Cluster, account: str) -> set[Permission]:
    bindings = json.loads(
        cluster.bed.kubectl("get", "rolebindings,clusterrolebindings", "--all-namespaces", "--output=json")
    )["items"]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    roles = [each["roleRef"] for each in bindings if subject in (each.get("subjects") or ())]
    return {
        permission
        for role in roles
        for permission in permissions(cluster.get(role["kind"], role["name"], _namespace(role)) or {})
    }


def _namespace(role: Object) -> str:
    return NAMESPACE if role["kind"] == "Role" else ""


def forged_header(source: str) -> bytes:
    """Return a header of the PROXY protocol, version 2, that names the IPv4 address *source* as the client."""
    addresses = socket.inet_aton(source) + socket.inet_aton("127.0.0.1") + struct.pack("!HH", 40000, 443)
    return _SIGNATURE + b"\x21\x11" + struct.pack("!H", len(addresses)) + addresses


def listening(cluster: Cluster, pod: Object) -> set[int]:
    """Return the TCP ports on which programs in *pod* listen, at any address."""
    tables = cluster.run_in(pod, "cat", "/proc/net/tcp", "/proc/net/tcp6")
    rows: Any = (line.split() for line in tables.splitlines())
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}
