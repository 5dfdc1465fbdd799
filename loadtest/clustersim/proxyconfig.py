"""The proxy's configuration as its image reads it: which file, and which fields are allowed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

CAPABILITY_VERSION = 140
"""The newest configuration that the simulated image understands, and what it reports of itself."""

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
    """The image would not start with this configuration."""


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """What the simulated image acts on; an absent field is empty."""

    auth_key: str = ""
    hostname: str = ""


def newest_file(data: Mapping[str, str]) -> str:
    """Return the key of the newest configuration that the image understands; raises ConfigError if there is none."""
    versions = [(int(match[1]), key) for key in data if (match := _FILE.fullmatch(key))]
    understood = [(version, key) for version, key in versions if version <= CAPABILITY_VERSION]
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
    return ProxyConfig(config.get("AuthKey") or "", config.get("Hostname") or "")
