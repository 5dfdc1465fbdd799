"""Puts our server into the object of OpenShift's DNS operator, and takes it out again."""

from collections.abc import Sequence
from typing import Any, Final

from tsoperator.api.objects import Object
from tsoperator.desired.clusterdns.results import Refusal, StubDomain

SERVER: Final = "tailnet-managed"
"""The name of our server, by which it is known to be ours; 15 characters are the most that it may have."""


def servers_of(openshift: Object) -> Sequence[Object]:
    """Return the servers that the object *openshift* has."""
    servers: Sequence[Object] = (openshift.get("spec") or {}).get("servers") or []
    return servers


def with_server(servers: Sequence[Object], where: str, stub: StubDomain) -> list[Object] | Refusal:
    """Return *servers* with ours; fields of ours that others have set stay."""
    for server in servers:
        taken = [zone for zone in server.get("zones") or [] if str(zone).lower().strip(".") in stub.zones]
        if taken and server.get("name") != SERVER:
            message = (
                f"server {server.get('name')!r} in {where} answers for {taken[0]}, and it isn't the operator's: "
                "remove that server, or set spec.clusterDNS.mode to Manual"
            )
            return Refusal("ZoneTaken", message)
    wanted = {"name": SERVER, "zones": [*stub.zones], "forwardPlugin": {"upstreams": [*stub.addresses]}}
    if not any(server.get("name") == SERVER for server in servers):
        return [*servers, wanted]
    return [_merged(server, wanted) if server.get("name") == SERVER else server for server in servers]


def without_server(servers: Sequence[Object]) -> list[Object]:
    """Return *servers* without ours."""
    return [server for server in servers if server.get("name") != SERVER]


def _merged(live: Object, wanted: Object) -> Object:
    forward: dict[str, Any] = live.get("forwardPlugin") or {}
    return {**live, **wanted, "forwardPlugin": {**forward, **wanted["forwardPlugin"]}}
