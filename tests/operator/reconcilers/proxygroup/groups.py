"""Builders of ProxyGroups of type egress and of their children, as the cache has them, for the tests of plans."""

from collections.abc import Sequence
from typing import Any

from tsoperator.api.objects import PROXYGROUP, SERVICE, Key, Object
from tsoperator.group.clusterip import place_labels
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.tailscaled import ProxyConfig, config_files
from tsoperator.reconcilers.proxygroup import plan as plans
from tsoperator.reconcilers.proxygroup.ask import parse
from tsoperator.reconcilers.proxygroup.plan import Observed
from tsoperator.runtime.ownership import Owner, owner_reference
from tsoperator.runtime.plan import Plan
from tsoperator.settings import Settings

from tests.support.objects import OPERATOR_NAMESPACE, obj, pod, settings, slim_secret

SETTINGS = settings(firewall_mode="auto", cluster_domain="k8s.example.org")
OWNER: Owner = group_owner("foo")
OWNED = {"ownerReferences": [owner_reference(PROXYGROUP, "foo", "foo-uid")]}


def live_group(spec: Object | None = None, *, name: str = "foo", **metadata: Any) -> Object:
    """Return a ProxyGroup of type egress with two replicas, unless *spec* says otherwise."""
    content = {"spec": {"type": "egress", **(spec or {})}}
    return obj(PROXYGROUP, Key("", name), content, **{"generation": 1, **metadata})


def config(ordinal: int) -> ProxyConfig:
    return ProxyConfig(f"foo-{ordinal}", SETTINGS.control_url, in_group=True)


def secrets(ordinal: int, auth_key: str = "", **state: str) -> list[Object]:
    """Return the state Secret and the config Secret of a replica, as the cache has them."""
    made = [
        slim_secret(f"foo-{ordinal}", state, {**OWNER.labels, "tailscale.com/secret-type": "state"}),
        slim_secret(
            f"foo-{ordinal}-config",
            config_files(config(ordinal), auth_key),
            {**OWNER.labels, "tailscale.com/secret-type": "config"},
        ),
    ]
    return [{**each, "metadata": {**each["metadata"], **OWNED}} for each in made]


def joined(ordinal: int) -> list[Object]:
    return secrets(
        ordinal,
        device_id=f"nodeid-{ordinal}",
        device_fqdn=f"foo-{ordinal}.tail1234.ts.net.",
        device_ips=f'["100.64.0.1{ordinal}"]',
        pod_uid=f"P{ordinal}",
    )


def running(*ordinals: int, statefulset: Object | None = None) -> Children:
    """Return the children of a group whose replicas with these *ordinals* have joined the tailnet.

    The *statefulset* of the group is among them if it is given.
    """
    return Children(
        statefulsets=[statefulset] if statefulset else [],
        secrets=[each for ordinal in ordinals for each in joined(ordinal)],
        pods=[pod(f"foo-{ordinal}", f"p{ordinal}") for ordinal in ordinals],
    )


def proxy_of(group: Object, observed: Observed, of: Settings = SETTINGS) -> Proxy:
    """Return the Proxy that *group* should have. The test fails if the group is refused."""
    wanted = plans.wanted(parse(group, of), observed, of)
    assert isinstance(wanted, Proxy), wanted
    return wanted


def plan_of(group: Object, observed: Observed, of: Settings = SETTINGS, **given: Any) -> Plan:
    """Return the plan for *group*. Each of *given* is another argument of `plans.plan`, such as ``keys``."""
    ask = parse(group, of)
    return plans.plan(ask, plans.wanted(ask, observed, of), observed, of, **given)


def cluster_ip_service(
    name: str = "db",
    *,
    fqdn: str = "db.tail1234.ts.net",
    ports: Sequence[tuple[int, int]] = ((5432, 10437),),
    **metadata: Any,
) -> Object:
    """Return the ClusterIP Service of the egress Service *name*, with the target *fqdn*; if empty, without a target."""
    labels = place_labels(Owner("svc", Key("default", name)), "foo")
    listed: list[Object] = [
        {"name": f"p{port}", "protocol": "TCP", "port": port, "targetPort": target} for port, target in ports
    ]
    health = {"name": "tailscale-health-check", "protocol": "TCP", "port": 9002, "targetPort": 9002}
    leads = {"tailscale.com/operator-last-set-ts-tailnet-target-fqdn": fqdn} if fqdn else {}
    key = Key(OPERATOR_NAMESPACE, f"ts-{name}-x7k2p")
    content = {"spec": {"type": "ClusterIP", "ports": [*listed, health]}}
    return obj(SERVICE, key, content, labels=labels, annotations=leads, **metadata)
