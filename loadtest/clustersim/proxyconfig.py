"""The proxy's configuration as the image reads it: the file that the image chooses, and the fields that it allows."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

CAPABILITY_VERSION = 142
"""The capability version that the simulated image reports by default. It reads no configuration for a newer version."""

_FILE = re.compile(r"cap-(\d+)\.hujson")
_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "Version": str,
    "Locked": (bool, str),
    "ServerURL": str,
    "AuthKey": str,
    "Enabled": (bool, str),
    "OperatorUser": str,
    "Hostname": str,
    "acceptDNS": (bool, str),
    "acceptRoutes": (bool, str),
    "exitNode": str,
    "allowLANWhileUsingExitNode": (bool, str),
    "AdvertiseRoutes": list,
    "AdvertiseExitNode": (bool, str),
    "DisableSNAT": (bool, str),
    "AdvertiseServices": list,
    "AppConnector": dict,
    "NetfilterMode": str,
    "NoStatefulFiltering": (bool, str),
    "PostureChecking": (bool, str),
    "RunSSHServer": (bool, str),
    "RunWebClient": (bool, str),
    "ShieldsUp": (bool, str),
    "RemoteConfig": (bool, str),
    "AutoUpdate": dict,
    "ServeConfigTemp": dict,
    "StaticEndpoints": list,
    "RelayServerPort": int,
    "RelayServerStaticEndpoints": list,
}


class ConfigError(Exception):
    """The configuration has an error because of which the image would not start."""


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """The settings that the simulated image acts on.

    The value of a missing field is empty or None. If *routes* or *app_connector* is None, the device keeps its old
    value.
    """

    auth_key: str = ""
    hostname: str = ""
    routes: tuple[str, ...] | None = None
    app_connector: bool | None = None
    server_url: str = ""
    relay_port: int | None = None
    relay_endpoints: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


def newest_file(data: Mapping[str, str], capability_version: int = CAPABILITY_VERSION) -> str:
    """Return the key in *data* of the newest configuration that the image understands.

    It is the configuration for the highest version up to *capability_version*. Raises ConfigError if there is none.
    """
    versions = [(int(match[1]), key) for key in data if (match := _FILE.fullmatch(key))]
    understood = [(version, key) for version, key in versions if version <= capability_version]
    if not understood:
        raise ConfigError("no configuration file that this version understands")
    return max(understood)[1]


def parse(text: str) -> ProxyConfig:
    """Read a configuration file strictly, as tailscaled does; raises ConfigError."""
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}") from error
    if not isinstance(config, dict) or config.get("Version") != "alpha0":
        raise ConfigError('unsupported "Version": want "alpha0"')
    for field, value in config.items():
        if field not in _FIELDS:
            raise ConfigError(f'unknown field "{field}"')
        if value is not None and not isinstance(value, _FIELDS[field]):
            raise ConfigError(f"cannot use {type(value).__name__} for {field}")
    routes, app_connector = config.get("AdvertiseRoutes"), (config.get("AppConnector") or {}).get("Advertise")
    return ProxyConfig(
        auth_key=config.get("AuthKey") or "",
        hostname=config.get("Hostname") or "",
        routes=None if routes is None else _networks(routes),
        app_connector=app_connector,
        server_url=config.get("ServerURL") or "",
        relay_port=_port(config.get("RelayServerPort")),
        relay_endpoints=_endpoints("RelayServerStaticEndpoints", config),
        services=tuple(config.get("AdvertiseServices") or ()),
    )


def check_listening(text: str) -> None:
    """Raise ConfigError unless *text* is an address and port to listen at.

    An IPv6 address has to be in brackets, and an IPv4 address must not be.
    """
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    try:
        good = ip_address(bare).version == (6 if host == f"[{bare}]" else 4) and port.isdecimal()
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"{text!r} is no address and port")


def _port(number: int | None) -> int | None:
    """Return *number*. Raises ConfigError if it is no port."""
    if number is not None and (isinstance(number, bool) or not 0 <= number < 1 << 16):
        raise ConfigError(f"cannot use {number} as a port")
    return number


def _endpoints(field: str, config: Mapping[str, list[str] | None]) -> tuple[str, ...]:
    """Return the addresses and ports in a *field* of *config*; raises ConfigError if one is malformed."""
    endpoints = tuple(config.get(field) or ())
    for endpoint in endpoints:
        check_listening(endpoint)
    return endpoints


def _networks(routes: list[str]) -> tuple[str, ...]:
    """Return *routes*. Raises ConfigError unless each is a network without host bits."""
    try:
        return tuple(str(ip_network(route)) for route in routes)
    except ValueError as error:
        raise ConfigError(f"AdvertiseRoutes: {error}") from error
