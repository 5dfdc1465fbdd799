"""The EndpointSlices of a ClusterIP Service: which proxies of the ProxyGroup serve it (proxygroup-family.md 7.5, 8)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from tsoperator.api.names import GROUP, LABEL_SERVICE_NAME, LABEL_SLICE_MANAGER, SLICE_MANAGER
from tsoperator.api.objects import ENDPOINTSLICE, Object, is_deleting, key_of, labels, uid
from tsoperator.desired.egressgroup import Entry, ProxyReport, entries_of
from tsoperator.desired.pod import in_service

VERSIONS: Final = (4, 6)
"""The IP versions."""


@dataclass(frozen=True, slots=True)
class Group:
    """A ProxyGroup as its Services see it.

    *obj* and *configmap* are None if they aren't there. *reports* are what the proxies say, by the name of their Pod.
    *new* has the UIDs of Pods that have just come, and for how many seconds each of them still counts as new.
    """

    name: str
    obj: Object | None = None
    configmap: Object | None = None
    pods: Sequence[Object] = ()
    reports: Mapping[str, ProxyReport] = field(default_factory=dict)
    new: Mapping[str, float] = field(default_factory=dict)

    def entry(self, name: str) -> Entry | None:
        """Return the entry called *name* in the ConfigMap."""
        return entries_of(self.configmap).get(name)


def slice_name(service: str, version: int) -> str:
    """Return the name of the EndpointSlice of one IP version of the ClusterIP Service called *service*."""
    return f"{service}-ipv{version}"


def families(service: Object) -> list[int]:
    """Return the IP versions of the addresses of a ClusterIP *service*; none while it has no addresses."""
    found = service["spec"].get("clusterIPs") or [service["spec"].get("clusterIP", "")]
    return sorted({ip_address(ip).version for ip in found if ip not in ("", "None")})


def pod_address(pod: Object, version: int) -> str:
    """Return the address of *pod* in one family; empty if it has none."""
    found = (each["ip"] for each in (pod.get("status") or {}).get("podIPs") or ())
    return next((ip for ip in found if ip_address(ip).version == version), "")


def serving_pods(group: Group, name: str, entry: Entry | None, version: int) -> list[Object]:
    """Return the Pods of *group* which serve *entry*, called *name*, at their address of one family, by name.

    Kubernetes counts a new Pod as ready only when its Services lead to it, so a Pod need not be ready. But one that is
    down is left out if others serve.
    """

    def serves(pod: Object) -> bool:
        report, address = group.reports.get(key_of(pod).name), pod_address(pod, version)
        if entry is None or report is None or not address or is_deleting(pod):
            return False
        reported = report.ip4 if version == 4 else report.ip6
        return address == reported and entry.is_served_by(report.entries.get(name))

    return [*in_service([pod for pod in group.pods if serves(pod)])]


def leading_pods(group: Group, serving: Sequence[Object], led: Collection[str]) -> list[Object]:
    """Return those of the *serving* Pods that get connections; *led* are the UIDs of those that get them now.

    While an older Pod serves, a new one waits: devices may still send to the address that its proxy had before.
    """
    if all(uid(pod) in group.new for pod in serving):
        return [*serving]
    return [pod for pod in serving if uid(pod) not in group.new or uid(pod) in led]


def led_pods(service: Object, slices: Iterable[Object]) -> set[str]:
    """Return the UIDs of the Pods to which the live *slices* of a ClusterIP *service* lead."""
    live = [each for each in slices if labels(each).get(LABEL_SERVICE_NAME) == key_of(service).name]
    return {endpoint.get("hostname", "") for each in live for endpoint in each.get("endpoints") or ()}


def endpoint_slices(service: Object, ports: Sequence[Object], serving: Mapping[int, Sequence[Object]]) -> list[Object]:
    """Return the EndpointSlices of a ClusterIP *service* with *ports*; *serving* are the Pods for it by IP version."""
    key = key_of(service)
    return [
        {
            "apiVersion": ENDPOINTSLICE.api_version,
            "kind": ENDPOINTSLICE.kind,
            "metadata": {
                "namespace": key.namespace,
                "name": slice_name(key.name, version),
                "labels": {**_ours(service), LABEL_SERVICE_NAME: key.name, LABEL_SLICE_MANAGER: SLICE_MANAGER},
            },
            "addressType": f"IPv{version}",
            "ports": [
                {"name": each["name"], "protocol": each["protocol"], "port": each["targetPort"]} for each in ports
            ],
            "endpoints": [_endpoint(pod, version) for pod in pods],
        }
        for version, pods in serving.items()
    ]


def serves(service: Object, slices: Iterable[Object]) -> bool:
    """Tell whether a client that connects to *service* gets to a proxy, at each of its addresses."""
    live = [each for each in slices if labels(each).get(LABEL_SERVICE_NAME) == key_of(service).name]
    counts = {each["addressType"]: len(each.get("endpoints") or ()) for each in live if not is_deleting(each)}
    wanted = families(service)
    return bool(wanted) and not is_deleting(service) and all(counts.get(f"IPv{version}") for version in wanted)


def _ours(service: Object) -> Object:
    """Return those labels of a ClusterIP *service* by which what was made for a Service at a ProxyGroup is found."""
    return {name: value for name, value in labels(service).items() if name.startswith(f"{GROUP}/")}


def _endpoint(pod: Object, version: int) -> Object:
    return {
        "addresses": [pod_address(pod, version)],
        "hostname": uid(pod),
        "conditions": {"ready": True, "serving": True, "terminating": False},
    }
