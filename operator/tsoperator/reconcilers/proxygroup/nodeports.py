"""The static endpoints of a ProxyGroup: Services of type NodePort, and addresses of nodes.

Each proxy listens at one port, to which the node port of a Service of its own leads. The other devices of the tailnet
learn from the proxy's config at which addresses of nodes they reach that port.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from tsoperator.api.objects import SERVICE, Key, Object, key_of, labels
from tsoperator.api.v1alpha1.proxyclass import PortRange
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.secret import static_endpoints_of
from tsoperator.reconcilers.proxygroup.status import FREED
from tsoperator.runtime.plan import Refusal

SUFFIX: Final = "-nodeport"
BY_NODE_PORT: Final = "node-port"
"""The index that finds the Services that have node ports. It finds all of them under one value, `ANY`."""
ANY: Final = "any"

_PORT_NAME: Final = "static-endpoint-port"
_PORTS: Final = range(1024, 65536)
_ADDRESSES_MAX: Final = 2


def has_static_endpoints(proxy_class: Object | None) -> bool:
    """Tell whether a ProxyClass, which need not be valid, asks for static endpoints."""
    return proxy_class is not None and bool((proxy_class.get("spec") or {}).get("staticEndpoints"))


def by_node_port(service: Object) -> Iterable[str]:
    """Return the value for the index `BY_NODE_PORT`, if *service* has node ports."""
    return (ANY,) if _node_ports(service) else ()


def slim_node(node: Object) -> Object:
    """Return the slim form of a node for the cache: its labels and addresses."""
    kept = ("name", "uid", "resourceVersion", "labels", "deletionTimestamp")
    metadata = {name: node["metadata"][name] for name in kept if name in node["metadata"]}
    addresses = (node.get("status") or {}).get("addresses") or []
    return {
        "apiVersion": node["apiVersion"],
        "kind": node["kind"],
        "metadata": metadata,
        "status": {"addresses": addresses},
    }


def with_static_endpoints(
    proxy: Proxy, children: Children, there: Sequence[Object], nodes: Sequence[Object]
) -> Proxy | Refusal:
    """Return *proxy* with the static endpoints that its class asks for, or why it can't have them.

    *there* has all Services with node ports, and *nodes* are all nodes of the cluster.
    """
    asked = proxy.proxy_class.static_endpoints if proxy.proxy_class else None
    if asked is None:
        return proxy
    given = asked.node_port
    live = {key_of(each): each for each in there}
    names = [f"{replica.state_secret.name}{SUFFIX}" for replica in proxy.replicas]
    services = [live.get(Key(proxy.key.namespace, name)) for name in names]
    ports = _allocated(services, there, given.ports)
    if isinstance(ports, Refusal):
        return ports
    port = next((only["port"] for each in services if (only := _only_port(each)) and only.get("port")), None)
    port = port or _PORTS[int(hashlib.sha256(proxy.parent_uid.encode()).hexdigest(), 16) % len(_PORTS)]
    found: list[tuple[str, ...]] = []
    for replica, node_port in zip(proxy.replicas, ports, strict=True):
        current = static_endpoints_of(children.secrets_of(replica).config)
        chosen = _chosen(_addresses(nodes, given.selector), node_port, current)
        if not chosen:
            selector = ", ".join(f"{name}={value}" for name, value in given.selector.items()) or "any labels"
            return _failed(
                f"could not find static endpoints for replica {replica.state_secret.name!r}: no node with {selector} "
                "has an address of type ExternalIP: give such a node one, or change spec.staticEndpoints of the "
                "ProxyClass"
            )
        found.append(chosen)
    made = [_service(proxy, ordinal, port, node_port) for ordinal, node_port in enumerate(ports)]
    return replace(proxy, pod=replace(proxy.pod, modes={"PORT": str(port)}), static_endpoints=found, services=made)


def _allocated(
    services: Sequence[Object | None], there: Sequence[Object], ranges: Sequence[PortRange]
) -> list[int] | Refusal:
    """Return the node ports for the *services* of the replicas, or a refusal if too few ports are free.

    A Service that has no node port in *ranges* gets the first free one. *there* has all Services with node ports.
    """
    allowed = {port: None for each in ranges for port in range(each.port, (each.end_port or each.port) + 1)}
    used = allowed.keys() & {port for each in there for port in _node_ports(each)}
    free = iter([port for port in allowed if port not in used])
    kept = [port if (port := _node_port(each)) in allowed else None for each in services]
    missing = kept.count(None)
    if missing > len(allowed) - len(used):
        return _failed(
            f"{missing} more node ports are needed for static endpoints, and of the {len(allowed)} that the ProxyClass "
            f"has, {len(used)} are in use: add ports to its spec.staticEndpoints.nodePort.ports"
        )
    return [next(free) if port is None else port for port in kept]


def _failed(message: str) -> Refusal:
    return Refusal(message, requeue_after=FREED)


def _addresses(nodes: Sequence[Object], selector: Mapping[str, str]) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the external addresses of the nodes that *selector* matches, in the order of their names."""
    for node in sorted(nodes, key=key_of):
        if selector.items() <= labels(node).items():
            for each in (node.get("status") or {}).get("addresses") or ():
                if each["type"] == "ExternalIP":
                    try:
                        yield ip_address(each["address"])
                    except ValueError:
                        continue


def _chosen(addresses: Iterator[IPv4Address | IPv6Address], node_port: int, current: Sequence[str]) -> tuple[str, ...]:
    """Return up to two endpoints with the *node_port*.

    Endpoints in *current* that can stay keep their order, so that the config doesn't change.
    """
    offered = dict.fromkeys(
        f"[{each}]:{node_port}" if each.version == 6 else f"{each}:{node_port}" for each in addresses
    )
    kept = [each for each in current if each in offered]
    return tuple(dict.fromkeys([*kept, *offered]))[:_ADDRESSES_MAX]


def _service(proxy: Proxy, ordinal: int, port: int, node_port: int) -> Object:
    pod = f"{proxy.key.name}-{ordinal}"
    listed = {"name": _PORT_NAME, "protocol": "UDP", "port": port, "targetPort": port, "nodePort": node_port}
    selector = {"statefulset.kubernetes.io/pod-name": pod}
    content = {"spec": {"type": "NodePort", "selector": selector, "ports": [listed]}}
    return proxy.child(SERVICE, f"{pod}{SUFFIX}", content)


def _node_ports(service: Object) -> list[int]:
    """Return all node ports of *service*; Kubernetes gives each port to one Service, whatever the protocol."""
    spec = service["spec"]
    found = [each.get("nodePort") for each in spec.get("ports") or ()]
    return [port for port in (*found, spec.get("healthCheckNodePort")) if port]


def _only_port(service: Object | None) -> Object | None:
    ports: Sequence[Object] = (service["spec"].get("ports") or ()) if service else ()
    return ports[0] if len(ports) == 1 else None


def _node_port(service: Object | None) -> int:
    found = _only_port(service)
    return int(found.get("nodePort") or 0) if found else 0
