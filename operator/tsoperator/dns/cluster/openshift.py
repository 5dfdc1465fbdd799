"""Puts our server into the object of OpenShift's DNS operator, and takes it out again."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from tsoperator.api.objects import Object
from tsoperator.dns.cluster.results import StubDomain
from tsoperator.runtime.plan import Refusal

_EARLIER: Final = "tailnet-managed"
"""The name of our OpenShift server in earlier versions of this operator, and in other operators.

We treat a server with this name as ours.
"""


def server_name(owner: str) -> str:
    """Return the name of our server in the object of OpenShift's DNS operator. We recognize our server by it.

    *owner* is our namespace. The name must not have more than 15 characters.
    """
    return f"tailnet-{hashlib.sha256(owner.encode()).hexdigest()[:7]}"


def servers_of(openshift: Object) -> Sequence[Object]:
    """Return the servers that the object *openshift* has."""
    servers: Sequence[Object] = (openshift.get("spec") or {}).get("servers") or []
    return servers


def with_server(servers: Sequence[Object], where: str, stub: StubDomain, owner: str) -> list[Object] | Refusal:
    """Return *servers* with our server for *stub*, or a refusal if another server has a zone of *stub*.

    If *servers* has our server already, that server keeps the fields that somebody else has set in it. *where* names
    the object and the field of *servers*, for messages. *owner* is our namespace.
    """
    others = without_server(servers, owner)
    for server in others:
        if taken := [zone for zone in server.get("zones") or [] if str(zone).lower().strip(".") in stub.zones]:
            message = (
                f"server {server.get('name')!r} in {where} answers for {taken[0]}, and it isn't the operator's: "
                "remove that server, or set spec.clusterDNS.mode to Manual"
            )
            return Refusal(message, "ZoneTaken")
    wanted = {"name": server_name(owner), "zones": [*stub.zones], "forwardPlugin": {"upstreams": [*stub.addresses]}}
    live = next((server for server in servers if server not in others), None)
    if live is None:
        return [*servers, wanted]
    return [
        _merged_server(server, wanted) if server is live else server for server in servers if server in (live, *others)
    ]


def without_server(servers: Sequence[Object], owner: str) -> list[Object]:
    """Return *servers* without our server."""
    return [server for server in servers if server.get("name") not in (_EARLIER, server_name(owner))]


def _merged_server(live: Object, wanted: Object) -> Object:
    forward: dict[str, Any] = live.get("forwardPlugin") or {}
    return {**live, **wanted, "forwardPlugin": {**forward, **wanted["forwardPlugin"]}}
