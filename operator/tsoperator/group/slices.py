"""The EndpointSlices of a place at a ProxyGroup: the proxies that get its connections (docs/development/groups.md).

Usually all proxies serve all ports, and a place has one EndpointSlice for each IP version. When the ports have changed,
some proxies read the change earlier than others. Until all proxies have read it, ports with fewer endpoints are in
EndpointSlices of their own. Clients don't notice that, because kube-proxy joins the endpoints of a port from all
EndpointSlices of a Service.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

from tsoperator.api.names import GROUP, HEALTH_PORT_NAME, LABEL_SERVICE_NAME, LABEL_SLICE_MANAGER, SLICE_MANAGER
from tsoperator.api.objects import ENDPOINTSLICE, Object, is_deleting, key_of, labels, uid
from tsoperator.group.egress import port_of
from tsoperator.group.proxygroup import Group
from tsoperator.proxy.entries import Entry, Port
from tsoperator.proxy.pod import in_service

VERSIONS: Final = (4, 6)
"""The IP versions."""

Serving = Mapping[Port, Sequence[Object]]
"""The Pods that serve a Service, by the port of the Service."""


def slice_name(service: str, version: int) -> str:
    """Return the name of the EndpointSlice of one IP version of the ClusterIP Service called *service*."""
    return f"{service}-ipv{version}"


def cluster_ips(service: Object) -> list[str]:
    """Return the cluster IPs of a ClusterIP *service*; empty while it has none."""
    found = service["spec"].get("clusterIPs") or [service["spec"].get("clusterIP", "")]
    return [ip for ip in found if ip not in ("", "None")]


def families(service: Object) -> list[int]:
    """Return the IP versions of the cluster IPs of a ClusterIP *service*; empty while it has none."""
    return sorted({6 if ":" in ip else 4 for ip in cluster_ips(service)})


def pod_address(pod: Object, version: int) -> str:
    """Return the address of *pod* in one IP version; empty if it has none."""
    found = (each["ip"] for each in (pod.get("status") or {}).get("podIPs") or ())
    return next((ip for ip in found if (":" in ip) is (version == 6)), "")


def serving_pods(group: Group, name: str, entry: Entry | None, version: int) -> dict[Port, list[Object]]:
    """Return the Pods of *group* that serve the *entry* called *name* at their addresses of one IP version, by port.

    The Pods are in the order of their names. They need not be ready, because a new Pod becomes ready only when its
    Services lead to it. The result leaves out a Pod that is down if other Pods serve.
    """

    def forwarded(pod: Object) -> Collection[Port]:
        report, address = group.reports.get(key_of(pod).name), pod_address(pod, version)
        if entry is None or report is None or not address or is_deleting(pod):
            return ()
        reported = report.ip4 if version == 4 else report.ip6
        return entry.forwarded(report.entries.get(name)) if address == reported else ()

    found = [(pod, forwarded(pod)) for pod in group.pods]
    ports = sorted(entry.ports) if entry else ()
    return {port: [*in_service([pod for pod, served in found if port in served])] for port in ports}


def without_newcomers(group: Group, serving: Sequence[Object], connected: Collection[str]) -> list[Object]:
    """Return those of the *serving* Pods of *group* that should get connections.

    Newcomers shouldn't, unless all *serving* Pods are newcomers. A newcomer has to wait, because devices can still send
    their answers to the address of the Pod that it replaces. *connected* are the UIDs of the Pods that get connections
    now: these Pods go on getting them, even if they are newcomers.
    """
    if all(uid(pod) in group.new for pod in serving):
        return [*serving]
    return [pod for pod in serving if uid(pod) not in group.new or uid(pod) in connected]


def connected_pods(service: Object, slices: Iterable[Object]) -> set[str]:
    """Return the UIDs of the Pods that are endpoints of a ClusterIP *service* in its live EndpointSlices, *slices*."""
    live = [each for each in slices if labels(each).get(LABEL_SERVICE_NAME) == key_of(service).name]
    return {endpoint.get("hostname", "") for each in live for endpoint in each.get("endpoints") or ()}


def endpoint_slices(service: Object, ports: Sequence[Object], serving: Mapping[int, Serving]) -> list[Object]:
    """Return the EndpointSlices of a ClusterIP *service*.

    *ports* are the ports of the Service, and *serving* has the Pods that serve them, by IP version.

    Every Pod that serves any port is an endpoint of the port for health checks. A Pod that is about to stop makes these
    checks to find out when it gets no more new connections. The EndpointSlice with the port for health checks also has
    the ports that all of these Pods serve. It is the last one of its IP version in the result, so that a port that
    moves out of it is already in another EndpointSlice.
    """
    made = []
    for version, pods_of in serving.items():
        any_port = {uid(pod): pod for pods in pods_of.values() for pod in pods}
        everyone = sorted(any_port.values(), key=key_of)
        main: list[Object] = []
        others: defaultdict[tuple[str, ...], list[Object]] = defaultdict(list)
        for each in ports:
            pods = everyone if each["name"] == HEALTH_PORT_NAME else pods_of.get(port_of(each), ())
            alike = main if len(pods) == len(everyone) else others[tuple(map(uid, pods))]
            alike.append(each)
        name = slice_name(key_of(service).name, version)
        made += [
            _slice(service, f"{name}-{_digest(some)}", version, some, [any_port[pod] for pod in pods])
            for pods, some in others.items()
        ]
        made.append(_slice(service, name, version, main, everyone))
    return made


def serves(service: Object, slices: Iterable[Object]) -> bool:
    """Tell whether connections to each address and port of *service* reach a proxy, according to its live *slices*."""
    live = [each for each in slices if labels(each).get(LABEL_SERVICE_NAME) == key_of(service).name]
    leads: dict[str, bool] = {}
    for each in live:
        if not is_deleting(each):
            leads[each["addressType"]] = leads.get(each["addressType"], True) and bool(each.get("endpoints"))
    wanted = families(service)
    return bool(wanted) and not is_deleting(service) and all(leads.get(f"IPv{version}") for version in wanted)


def _labels(service: Object) -> Object:
    """Return the labels with the parent and the group of a ClusterIP *service*.

    The EndpointSlices of *service* have the same labels.
    """
    return {name: value for name, value in labels(service).items() if name.startswith(f"{GROUP}/")}


def _slice(service: Object, name: str, version: int, ports: Sequence[Object], pods: Sequence[Object]) -> Object:
    """Return the EndpointSlice called *name*, in which *pods* are the endpoints of these *ports* of *service*."""
    key = key_of(service)
    return {
        "apiVersion": ENDPOINTSLICE.api_version,
        "kind": ENDPOINTSLICE.kind,
        "metadata": {
            "namespace": key.namespace,
            "name": name,
            "labels": {**_labels(service), LABEL_SERVICE_NAME: key.name, LABEL_SLICE_MANAGER: SLICE_MANAGER},
        },
        "addressType": f"IPv{version}",
        "ports": [{"name": each["name"], "protocol": each["protocol"], "port": each["targetPort"]} for each in ports],
        "endpoints": [_endpoint(pod, version) for pod in pods],
    }


def _digest(ports: Iterable[Object]) -> str:
    """Return a short text that depends only on *ports*.

    The text is a part of an EndpointSlice's name, so EndpointSlices with different ports have different names. When
    ports move to another EndpointSlice, the operator makes the new one before it deletes the old one.
    """
    return f"{crc32(repr([(each['name'], port_of(each)) for each in ports]).encode()):08x}"


def _endpoint(pod: Object, version: int) -> Object:
    return {
        "addresses": [pod_address(pod, version)],
        "hostname": uid(pod),
        "conditions": {"ready": True, "serving": True, "terminating": False},
    }
