"""Builders of PeerRelays and of their children, as the cache has them, for the tests of plans."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tsoperator.api.objects import PEERRELAY, SERVICE, STATEFULSET, Key, Object
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children
from tsoperator.proxy.secret import slim
from tsoperator.proxy.tailscaled import ProxyConfig, config_files
from tsoperator.reconcilers.peerrelay import plan as plans
from tsoperator.reconcilers.peerrelay.ask import owner, parse
from tsoperator.reconcilers.peerrelay.endpoints import Balancers
from tsoperator.reconcilers.peerrelay.plan import Observed
from tsoperator.runtime.plan import Plan, Refusal

from tests.support.objects import OPERATOR_NAMESPACE, obj, pod, settings, whole_secret

SETTINGS = settings()
OWNER = owner(Key("", "edge"))
OF_REPLICA = "tailscale.com/peer-relay-replica"
PORT = {"name": "peerrelay", "protocol": "UDP", "port": 41641, "targetPort": 41641}


def live_relay(spec: Object | None = None, name: str = "edge", **metadata: Any) -> Object:
    """Return a PeerRelay as the API server stores it: with one replica unless *spec* says otherwise."""
    return obj(PEERRELAY, Key("", name), {"spec": {"replicas": 1, **(spec or {})}}, **{"generation": 1, **metadata})


def balancer(ordinal: int, *entries: Object, name: str = "edge", **metadata: Any) -> Object:
    """Return the load balancer of a replica, with the *entries* of its status."""
    key = Key(OPERATOR_NAMESPACE, f"peerrelay-{name}-{ordinal}")
    spec = {"type": "LoadBalancer", "ports": [PORT]}
    status = {"loadBalancer": {"ingress": list(entries)}} if entries else {}
    labels = {**owner(Key("", name)).labels, OF_REPLICA: str(ordinal)}
    return obj(SERVICE, key, {"spec": spec, "status": status}, **{"labels": labels, **metadata})


def ip(address: str) -> Object:
    return {"ip": address}


def host(name: str) -> Object:
    return {"hostname": name}


def secrets(ordinal: int, *endpoints: str, auth_key: str = "", **state: str) -> list[Object]:
    """Return the state Secret and the config Secret of a replica. The config has static *endpoints*."""
    config = ProxyConfig(f"edge-{ordinal}", SETTINGS.control_url, relay=True, static_endpoints=endpoints)
    labels = {**OWNER.labels, OF_REPLICA: str(ordinal)}
    name = f"peerrelay-edge-{ordinal}"
    return [
        whole_secret(name, state, {**labels, "tailscale.com/secret-type": "state"}),
        whole_secret(
            f"{name}-config", config_files(config, auth_key), {**labels, "tailscale.com/secret-type": "config"}
        ),
    ]


def joined(ordinal: int, *endpoints: str) -> list[Object]:
    return secrets(
        ordinal,
        *endpoints,
        device_id=f"nodeid-{ordinal}",
        device_fqdn=f"edge-{ordinal}.tail1234.ts.net.",
        tailscale_capver="142",
    )


def relay_pod(ordinal: int, **status: Any) -> Object:
    found = pod(f"peerrelay-edge-{ordinal}", f"p{ordinal}")
    return {**found, "metadata": {**found["metadata"], "labels": OWNER.labels}, "status": status}


def statefulset(replicas: int, ready: int) -> Object:
    """Return the StatefulSet of a PeerRelay with that many *ready* Pods. Its rollout is complete."""
    status = {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": ready}
    spec = {"replicas": replicas, "template": {"spec": {}}, "selector": {"matchLabels": OWNER.labels}}
    key = Key(OPERATOR_NAMESPACE, "peerrelay-edge")
    return obj(STATEFULSET, key, {"spec": spec, "status": status}, labels=OWNER.labels, generation=1)


def running(*services: Object, ready: int | None = None, secret_list: Sequence[Object] | None = None) -> Children:
    """Return the children of a PeerRelay whose load balancers are *services*.

    Without a *secret_list*, all relays have joined.
    """
    count = len(services)
    found = [each for ordinal in range(count) for each in joined(ordinal)] if secret_list is None else secret_list
    return Children(
        services=services,
        statefulsets=[statefulset(count, count if ready is None else ready)],
        secrets=found,
        pods=[relay_pod(ordinal) for ordinal in range(count)],
    )


def plan_of(relay: Object, children: Children | None = None, keys: Keys | Refusal = NO_KEYS, **observed: Any) -> Plan:
    """Return the plan for *relay* with *children*. *observed* are other facts, such as ``balancers``."""
    children = children or Children()
    seen = Observed(replace(children, secrets=[*map(slim, children.secrets)]), **observed)
    ask = parse(relay, SETTINGS)
    return plans.plan(ask, plans.wanted(ask, seen, SETTINGS), seen, SETTINGS, keys)


def resolving(**resolved: Any) -> Balancers:
    return Balancers(resolved={name.replace("_", "."): answer for name, answer in resolved.items()})
