"""Parses a Connector into an `Ask` once, with its defaults, or with the reason why it is invalid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import PARENT_CONNECTOR
from tsoperator.api.objects import Object, key_of, spec_text
from tsoperator.api.rules import DNS_LABEL_MAX
from tsoperator.api.v1alpha1.connector import Connector, ConnectorSpec
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.proxy.replica import hostnames_error, replicas_error
from tsoperator.reconcilers.connector.routes import default_route_error, route_error
from tsoperator.runtime.ownership import Owner
from tsoperator.settings import Settings

_LABEL_MAX: Final = 63
"""The most characters that the name of a Connector can have, because its children have the name in a label."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The requests in the Connector *obj*, completed by the operator's settings.

    *wrong* says why it is invalid; it is empty for a valid one. *class_name* is the ProxyClass that the Connector
    names, and *tailnet* the Tailnet. Each of them is empty if the Connector names none, and is known even if the
    Connector is invalid.

    The other fields are those of a valid Connector. The Connector has *replicas*, whose devices have *tags*. With a
    *hostname_prefix*, each device asks for a hostname of its own that begins with the prefix; without one, all
    devices ask for *hostname*. The devices advertise *subnet_routes*, as subnet routers, and *app_routes*, as app
    connectors.
    """

    obj: Object
    class_name: str
    tailnet: str
    wrong: str = ""
    replicas: int = 0
    tags: Sequence[str] = ()
    hostname: str = ""
    hostname_prefix: str = ""
    subnet_routes: Sequence[str] = ()
    app_routes: Sequence[str] = ()
    is_exit_node: bool = False
    is_app_connector: bool = False

    @property
    def owner(self) -> Owner:
        """The owner of the Connector's children, as their labels name it."""
        return Owner(PARENT_CONNECTOR, key_of(self.obj))


def parse(obj: Object, settings: Settings) -> Ask:
    """Return the requests in the Connector *obj*, which need not be valid."""
    connector, class_, tailnet = Connector.parse(obj), spec_text(obj, "proxyClass"), spec_text(obj, "tailnet")
    if isinstance(connector, Invalid):
        return Ask(obj, class_, tailnet, connector.message)
    spec = connector.spec
    return Ask(
        obj,
        class_,
        tailnet,
        wrong="; ".join(_violations(connector)),
        replicas=spec.replicas,
        tags=spec.tags or settings.proxy_tags,
        hostname=_hostname(connector),
        hostname_prefix=spec.hostname_prefix or "",
        subnet_routes=_subnet_routes(spec),
        app_routes=_app_routes(spec),
        is_exit_node=spec.exit_node,
        is_app_connector=spec.app_connector is not None,
    )


def _violations(connector: Connector) -> list[str]:
    """Return what is wrong with *connector*; each violation is a sentence that says how to fix it."""
    spec, name = connector.spec, connector.metadata.name
    routes = [*_subnet_routes(spec), *_app_routes(spec)]
    found = [error for route in routes if (error := route_error(route))]
    if not spec.exit_node and (error := default_route_error(routes)):
        found.append(error)
    if not (spec.subnet_router or spec.exit_node or spec.app_connector):
        found.append("it connects nothing: set subnetRouter, exitNode or appConnector")
    if spec.app_connector and (spec.subnet_router or spec.exit_node):
        found.append("an app connector can't be a subnet router or an exit node too: make a Connector for each")
    if spec.hostname and spec.replicas > 1:
        found.append("one hostname can't be that of several replicas: use hostnamePrefix instead of hostname")
    if error := replicas_error(spec.replicas):
        found.append(f"{error}, or make another Connector beside it")
    if spec.hostname and spec.hostname_prefix:
        found.append("hostname and hostnamePrefix exclude each other: remove one of them")
    if len(name) > _LABEL_MAX:
        found.append(f"its name must have at most {_LABEL_MAX} characters, not {len(name)}: make it anew with another")
    elif error := _hostname_error(connector):
        found.append(error)
    return found


def _hostname_error(connector: Connector) -> str:
    """Return an error if the devices of *connector* would have hostnames that are too long; empty if not."""
    spec = connector.spec
    if spec.hostname_prefix:
        return hostnames_error(spec.hostname_prefix, spec.replicas)
    if len(name := _hostname(connector)) <= DNS_LABEL_MAX:
        return ""
    field = "spec.hostnamePrefix" if spec.replicas > 1 else "spec.hostname"
    return f"its hostname {name} must have at most {DNS_LABEL_MAX} characters, not {len(name)}: set {field}"


def _hostname(connector: Connector) -> str:
    """Return the hostname of the device of *connector*, for a Connector without a hostname prefix."""
    return connector.spec.hostname or f"{connector.metadata.name}-connector"


def _subnet_routes(spec: ConnectorSpec) -> Sequence[str]:
    return spec.subnet_router.advertise_routes if spec.subnet_router else ()


def _app_routes(spec: ConnectorSpec) -> Sequence[str]:
    return (spec.app_connector.routes or ()) if spec.app_connector else ()
