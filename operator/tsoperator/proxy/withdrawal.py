"""Stops a proxy of a ProxyGroup from advertising Tailscale Services while the rest of its config can't be written."""

from collections.abc import Collection

from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import (
    accepts_routes_of,
    advertised_services,
    config_patch,
    has_logged_in,
    hostname_of,
    login_url_of,
    static_endpoints_of,
)
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.runtime.plan import Patch


def withdrawal(secrets: ReplicaSecrets, services: Collection[str]) -> Patch | None:
    """Return the patch after which a replica advertises only those of its Tailscale Services that are in *services*.

    The rest of its config stays the same. Return None if the replica advertises no others. Before its first login, a
    replica advertises nothing, so its config stays as it is, with the auth key that the replica needs.
    """
    secret = secrets.config
    if secret is None or not has_logged_in(secrets):
        return None
    advertised = advertised_services(secret)
    kept = tuple(each for each in advertised if each in services)
    if kept == advertised:
        return None
    config = ProxyConfig(
        hostname_of(secret),
        login_url_of(secret),
        accept_routes=accepts_routes_of(secret),
        in_group=True,
        services=kept,
        static_endpoints=static_endpoints_of(secret),
    )
    return config_patch(secrets, config, "")
