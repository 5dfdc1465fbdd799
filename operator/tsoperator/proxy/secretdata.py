"""Reads the config files, the certificates and the login profile in the data of a proxy's whole Secret."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from tsoperator.api.names import (
    AUTH_KEY_FILE,
    GROUP_CONFIG_KEY,
    K8S_PROXY_CONFIG_KEY,
    RELAY_CONFIG_KEY,
    SECRET_CURRENT_PROFILE,
    SERVE_CONFIG_KEY,
)
from tsoperator.api.objects import Object
from tsoperator.proxy.stored import json_or_empty, text, text_in
from tsoperator.proxy.x509 import Validity, validity

_CONFIG_FILE: Final = re.compile(r"cap-(\d+)\.hujson")


@lru_cache(maxsize=256)  # the Secrets of all proxies have the same keys, and are read at each change
def config_version(name: str) -> int | None:
    """Return the number in the key *name* of a config; None if it is another key.

    The number is the capability version of the oldest image that reads the config.
    """
    match = _CONFIG_FILE.fullmatch(name)
    return int(match[1]) if match else None


def newest_config(data: Mapping[str, str]) -> Object:
    """Return the newest config in the *data* of a whole Secret; empty if there is none."""
    found = {version: name for name in data if (version := config_version(name)) is not None}
    return json_or_empty(text(data, found[max(found)] if found else K8S_PROXY_CONFIG_KEY))


def file_names(data: Mapping[str, str]) -> Sequence[str]:
    """Return the keys of the config files in the *data* of a Secret.

    A Recorder has only one file, with the auth key. If *data* has other config files as well, the file with the auth
    key is from an early version of the Go operator. No proxy reads that file, so it is left out.
    """
    named = (SERVE_CONFIG_KEY, K8S_PROXY_CONFIG_KEY)
    found = [name for name in data if name in named or config_version(name) is not None]
    return found or [name for name in (AUTH_KEY_FILE,) if name in data]


def auth_key_in(data: Mapping[str, str], config: Object) -> str:
    """Return the auth key in the *data* of a Secret; empty if it has none. *config* is its newest config."""
    return text(data, AUTH_KEY_FILE) if AUTH_KEY_FILE in file_names(data) else text_in(config, "AuthKey")


def served_service(data: Mapping[str, str], config: Object) -> str | None:
    """Return the Tailscale Service in the *config* of a proxy of the Kubernetes API; empty if it has none.

    Return None if *data* are of a proxy of another kind.
    """
    given = config.get("APIServerProxy")
    if K8S_PROXY_CONFIG_KEY not in data:
        return None
    return text_in(given, "ServiceName") if isinstance(given, dict) else ""


def has_routes_to_lose(config: Object, profile: Object) -> bool:
    """Tell whether a proxy possibly advertises routes that it has to lose before it can be an app connector.

    These are the routes that its *config*, or an earlier config, named. If *config* has no list of routes, the proxy
    keeps all its routes, so it has none to lose. If it has a list, the login *profile* shows whether the routes are
    gone, because tailscaled stores there the routes that it advertises. The empty list of an app connector is no sign
    of routes, because earlier versions of this operator wrote it.
    """
    routes = config.get("AdvertiseRoutes")
    if routes is None or (routes == [] and _is_app_connector(config)):
        return False
    return not profile or bool(profile.get("AdvertiseRoutes")) or _is_app_connector(profile)


def _is_app_connector(settings: Object) -> bool:
    """Tell whether these *settings*, of a config or of a login profile, make the proxy an app connector."""
    given = settings.get("AppConnector")
    return isinstance(given, dict) and given.get("Advertise") is True


def static_endpoints(data: Mapping[str, str]) -> tuple[str, ...]:
    """Return the static endpoints in the *data* of the config Secret of a relay, or of a proxy of a ProxyGroup."""
    for file, field in (
        (GROUP_CONFIG_KEY, "StaticEndpoints"),
        (K8S_PROXY_CONFIG_KEY, "StaticEndpoints"),
        (RELAY_CONFIG_KEY, "RelayServerStaticEndpoints"),
    ):
        found = json_or_empty(text(data, file)).get(field) if file in data else None
        if isinstance(found, list):
            return tuple(each for each in found if isinstance(each, str))
    return ()


def certificates(data: Mapping[str, str]) -> dict[str, Validity | None]:
    """Return the validity of each certificate in *data* by its domain.

    The result leaves out empty certificates, and certificates without a private key. In a Secret of type
    ``kubernetes.io/tls``, `TLS` stands for the domain.
    """
    domains = [name.removesuffix(".crt") for name in data if name.endswith(".crt") and data[name]]
    return {domain: validity(text(data, f"{domain}.crt")) for domain in domains if data.get(f"{domain}.key")}


def login_profile(data: Mapping[str, str]) -> Object:
    """Return tailscaled's login profile in *data*; empty if there is none."""
    return json_or_empty(text(data, text(data, SECRET_CURRENT_PROFILE)))


def device_in(profile: Object) -> str:
    """Return the ID of the device in tailscaled's login *profile*; empty if there is none."""
    config = profile.get("Config")
    return text_in(config, "NodeID") if isinstance(config, dict) else ""


def fqdn_in(profile: Object) -> str:
    """Return the MagicDNS name of the device in tailscaled's login *profile*; empty if there is none.

    The login name of a tagged device is usually its MagicDNS name. If the control server gives another login name, the
    result is empty.
    """
    config = profile.get("Config")
    user = config.get("UserProfile") if isinstance(config, dict) else None
    name = text_in(user, "LoginName") if isinstance(user, dict) else ""
    return name.removesuffix(".") if "." in name and "@" not in name else ""
