"""Settings of the API server proxy, from the environment that the operator gives its container."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal

from tsoperator.apiproxy.impersonation import AccessMode
from tsoperator.logs import DEV, LOG_FORMATS, LOG_LEVELS

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SOCKET: Final = Path("/var/run/tailscale/tailscaled.sock")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")

PROXY_VARIABLES: Final[Mapping[str, str]] = {
    "APISERVER_PROXY": "true: impersonate callers; noauth: requests have credentials of their own (required)",
    "APISERVER_PROXY_HTTP": "true: also serve callers without TLS (default false)",
    "TS_SOCKET": "the socket of tailscaled (default /var/run/tailscale/tailscaled.sock)",
    "POD_IP": "the address for probes and metrics (required)",
    "KUBERNETES_SERVICE_HOST": "the API server's address; Kubernetes sets it (required)",
    "KUBERNETES_SERVICE_PORT": "the API server's port; Kubernetes sets it (default 443)",
    "OPERATOR_LOGGING": "info, debug, warn, error, or dev, which is debug as text (default info)",
    "OPERATOR_LOG_FORMAT": "text or json (default text)",
}


class InvalidProxySetting(Exception):
    """An error: a setting is wrong. The message names the variable and says which values are valid."""


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The settings that the proxy was started with."""

    mode: AccessMode
    pod_ip: str
    api_host: str
    api_port: int = 443
    http: bool = False
    """True if the proxy also serves callers without TLS."""
    socket: Path = _SOCKET
    tls_port: int = 8443
    """The port to which tailscaled forwards connections of callers after it has decrypted their TLS.

    No environment variable sets this port or the two ports below."""
    http_port: int = 8080
    health_port: int = 9002
    ca_file: Path = _ACCOUNT / "ca.crt"
    token_file: Path = _ACCOUNT / "token"
    log_level: str = "INFO"
    log_format: Literal["text", "json"] = "text"


def read_proxy_settings(environ: Mapping[str, str]) -> ProxySettings:
    """Return the settings in *environ*. An empty variable counts as unset. Raises InvalidProxySetting."""
    given = {name: value.strip() for name, value in environ.items() if value.strip()}
    level = _one_of(given, "OPERATOR_LOGGING", tuple(LOG_LEVELS), "info")
    is_json = _one_of(given, "OPERATOR_LOG_FORMAT", LOG_FORMATS, "text") == "json"
    return ProxySettings(
        mode=AccessMode(_one_of(given, "APISERVER_PROXY", tuple(mode.value for mode in AccessMode))),
        pod_ip=_address(given, "POD_IP"),
        api_host=_host(given, "KUBERNETES_SERVICE_HOST"),
        api_port=_port(given, "KUBERNETES_SERVICE_PORT", "443"),
        http=_one_of(given, "APISERVER_PROXY_HTTP", ("true", "false"), "false") == "true",
        socket=Path(given.get("TS_SOCKET", _SOCKET)),
        log_level=LOG_LEVELS[level],
        log_format="json" if is_json and level != DEV else "text",
    )


def _one_of(given: Mapping[str, str], name: str, values: tuple[str, ...], default: str = "") -> str:
    value = given.get(name, default)
    if value not in values:
        raise InvalidProxySetting(f"{name}: {value!r} is not {' or '.join(values)}")
    return value


def _address(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "")
    try:
        return str(ip_address(value))
    except ValueError:
        raise InvalidProxySetting(f"{name}: {value!r} is not an IP address") from None


def _host(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "")
    try:
        return str(ip_address(value))
    except ValueError:
        if not _HOST.fullmatch(value):  # some clouds give the API server a name
            raise InvalidProxySetting(f"{name}: {value!r} is neither an IP address nor a name") from None
        return value


def _port(given: Mapping[str, str], name: str, default: str) -> int:
    value = given.get(name, default)
    if not re.fullmatch("[0-9]{1,5}", value) or not 0 < int(value) < 65536:
        raise InvalidProxySetting(f"{name}: {value!r} is not a port")
    return int(value)
