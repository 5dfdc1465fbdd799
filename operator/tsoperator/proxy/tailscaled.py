"""Configuration of the proxy's tailscaled: the cap-N.hujson files and the serve config."""

import json
from dataclasses import dataclass

from tsoperator.api.names import (
    AUTH_KEY_FILE,
    CONFIG_KEY,
    CONFIG_KEY_WITHOUT_APP_CONNECTOR,
    GROUP_CONFIG_KEY,
    RELAY_CONFIG_KEY,
    RELAY_PORT,
    SERVE_CONFIG_KEY,
)
from tsoperator.api.objects import Object


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """The part of a proxy's configuration that is in files. A proxy reloads these files, but not its environment.

    *routes* are advertised to the tailnet; with None, tailscaled keeps the routes that it has, even over a restart.
    A proxy that is *in_group* belongs to a ProxyGroup. It advertises the Tailscale Services in *services*, by name, and
    other devices may reach it at its *static_endpoints* without NAT traversal. A *relay* forwards between devices,
    which reach it at its *static_endpoints*. If *only_key* is true, the proxy has no file but one with the auth key.
    """

    hostname: str
    server_url: str
    serve_config: Object | None = None
    routes: tuple[str, ...] | None = None
    app_connector: bool = False
    accept_routes: bool = False
    in_group: bool = False
    services: tuple[str, ...] = ()
    relay: bool = False
    static_endpoints: tuple[str, ...] = ()
    only_key: bool = False


def config_files(config: ProxyConfig, auth_key: str = "") -> dict[str, str]:
    """Return the files of a proxy's config by the keys that they have in the Secret.

    docs/development/proxies.md lists the fields. Their order must stay as it is. For a proxy of a ProxyGroup and
    for a relay there is only one file: an image that is too old to read it can run neither.
    """
    if config.only_key:
        return {AUTH_KEY_FILE: auth_key}  # even without a key, because the Pods mount this file
    head: Object = {"Version": "alpha0", "Locked": False, "ServerURL": config.server_url}
    if auth_key:
        head["AuthKey"] = auth_key
    head |= {"Hostname": config.hostname, "acceptDNS": False, "acceptRoutes": config.accept_routes}
    if config.in_group:
        if config.services:
            head["AdvertiseServices"] = list(config.services)
        if config.static_endpoints:
            head["StaticEndpoints"] = list(config.static_endpoints)
        return {GROUP_CONFIG_KEY: _compact(head)}
    if config.relay:
        head["RelayServerPort"] = RELAY_PORT
        if config.static_endpoints:
            head["RelayServerStaticEndpoints"] = list(config.static_endpoints)
        return {RELAY_CONFIG_KEY: _compact(head)}
    if config.routes is not None:
        head["AdvertiseRoutes"] = list(config.routes)
    app_connector = {"Advertise": config.app_connector}
    files = {
        CONFIG_KEY: _compact({**head, "AppConnector": app_connector, "NoStatefulFiltering": True}),
        CONFIG_KEY_WITHOUT_APP_CONNECTOR: _compact({**head, "NoStatefulFiltering": True}),
    }
    if config.serve_config is not None:
        files[SERVE_CONFIG_KEY] = _compact(config.serve_config)
    return files


def _compact(value: Object) -> str:
    return json.dumps(value, separators=(",", ":"))
