"""Gathers the facts about Connectors that `plan` needs."""

from collections.abc import Iterable

from tsoperator.api.names import PARENT_CONNECTOR
from tsoperator.api.objects import (
    CONNECTOR,
    DEVICE,
    POD,
    PROXYCLASS,
    SECRET,
    SERVICE,
    SERVICEMONITOR,
    STATEFULSET,
    TAILNET,
    Key,
    Object,
    key_of,
)
from tsoperator.reconcilers.connector import plan as plans
from tsoperator.reconcilers.connector.ask import Ask, parse
from tsoperator.reconcilers.proxies import Proxies, Seen
from tsoperator.runtime.kind import Kind
from tsoperator.runtime.manager import Watches
from tsoperator.runtime.ownership import owned_keys
from tsoperator.runtime.plan import Plan


def connectors(proxies: Proxies) -> Kind[Seen[Ask, plans.Observed] | Plan]:
    """Return the `Kind` of Connectors, which makes their proxies."""

    def look(ask: Ask) -> plans.Observed:
        children = proxies.children(ask.owner)
        return plans.Observed(
            children, proxies.proxy_class(ask.class_name), proxies.tailnet(ask.tailnet, ask.owner, children)
        )

    def parent_keys(child: Object) -> Iterable[Key]:
        return owned_keys(child, PARENT_CONNECTOR, proxies.settings.namespace)

    watches: Watches = {
        CONNECTOR: lambda connector: (key_of(connector),),
        **dict.fromkeys((SERVICE, SERVICEMONITOR, STATEFULSET, SECRET, POD), parent_keys),
        PROXYCLASS: proxies.naming(CONNECTOR, "proxyClass"),
        TAILNET: proxies.naming(CONNECTOR, "tailnet"),
        DEVICE: lambda device: proxies.parents_of_device(device, PARENT_CONNECTOR),
    }
    return proxies.kind(CONNECTOR, watches, parse, look, plans)
