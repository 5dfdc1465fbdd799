"""The configuration files of a proxy: those of tailscaled (cap-N.hujson) or of k8s-proxy, and the serve config."""

import json
from dataclasses import dataclass
from typing import Literal

from tsoperator.api.names import (
    APP_PROXYGROUP_KUBE_APISERVER,
    AUTH_KEY_FILE,
    CONFIG_KEY,
    CONFIG_KEY_WITHOUT_APP_CONNECTOR,
    GROUP_CONFIG_KEY,
    HEALTH_PORT,
    K8S_PROXY_CONFIG_KEY,
    RELAY_CONFIG_KEY,
    RELAY_PORT,
    SERVE_CONFIG_KEY,
)
from tsoperator.api.objects import Object


@dataclass(frozen=True, slots=True)
class APIServing:
    """The part of a configuration that only a proxy of the Kubernetes API has.

    In the *mode* auth, the proxy impersonates the caller. In the *mode* noauth, it forwards the credentials in the
    request. It keeps its state in the Secret *state*, and serves the Tailscale Service called *service*. If it
    *issues*, it also gets the certificate for this Service. *metrics* and *accept_routes* are None if the ProxyClass
    doesn't set them.
    """

    mode: str
    log_level: Literal["info", "debug"]
    state: str = ""
    service: str = ""
    issues: bool = False
    metrics: bool | None = None
    accept_routes: bool | None = None


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """The part of a proxy's configuration that is in files. A proxy reloads these files, but not its environment.

    The proxy advertises *routes* to the tailnet. If *routes* is None, tailscaled keeps the routes that it advertised
    before, even over a restart.

    A proxy that is *in_group* belongs to a ProxyGroup. It advertises the Tailscale Services whose names are in
    *services*, and other devices can reach it at its *static_endpoints* without NAT traversal. A *relay* forwards
    packets between devices, which reach it at its *static_endpoints*. If *only_key* is true, the only file of the proxy
    is one with the auth key. A proxy of the Kubernetes API runs k8s-proxy, and *api* has the rest of its configuration.
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
    api: APIServing | None = None


def config_files(config: ProxyConfig, auth_key: str = "") -> dict[str, str]:
    """Return the files of a proxy's config by the keys that they have in the Secret.

    docs/development/proxies.md lists the fields. The order of the fields must not change. A proxy of a ProxyGroup and a
    relay have only one file, without versions for older images, because those images can't run them.
    """
    if config.only_key:
        return {AUTH_KEY_FILE: auth_key}  # an empty file if there is no key, because the Pods mount this file
    if config.api is not None:
        return {K8S_PROXY_CONFIG_KEY: _compact(_k8s_proxy_config(config, config.api, auth_key))}
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


def _k8s_proxy_config(config: ProxyConfig, api: APIServing, auth_key: str) -> Object:
    """Return the configuration of k8s-proxy. The order of its fields must not change."""
    fields = {
        "Version": "v1alpha1",
        "AuthKey": auth_key or None,
        "State": f"kube:{api.state}",
        "LogLevel": api.log_level,
        "App": APP_PROXYGROUP_KUBE_APISERVER,
        "ServerURL": config.server_url,
        "LocalPort": HEALTH_PORT,
        "MetricsEnabled": api.metrics,
        "HealthCheckEnabled": True,
        "Hostname": config.hostname,
        "AcceptRoutes": api.accept_routes,
        "AdvertiseServices": list(config.services) or None,
        "APIServerProxy": {
            "Enabled": True,
            "Mode": api.mode,
            **({"ServiceName": api.service} if api.service else {}),
            "IssueCerts": api.issues,
        },
        "StaticEndpoints": list(config.static_endpoints) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _compact(value: Object) -> str:
    return json.dumps(value, separators=(",", ":"))
