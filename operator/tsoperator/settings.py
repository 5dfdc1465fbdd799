"""Settings from the environment: the Go operator's variables and defaults, and ours (docs/settings.md)."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal

from tsoperator.api.apiserver import ProxyMode, device_secret_error, modes_error
from tsoperator.api.images import image_error, image_tag
from tsoperator.api.names import DEFAULT_CONTROL_URL, DEFAULT_INGRESS_CLASS
from tsoperator.api.rules import (
    DNS_NAME_MAX,
    control_url_error,
    dns_label_error,
    namespace_error,
    object_name_error,
    server_address,
    split_tags,
    tag_error,
    takes_from_cluster,
    unreadable,
)
from tsoperator.logs import DEV, LOG_FORMATS, LOG_LEVELS
from tsoperator.variables import VARIABLES

_K8S_PROXY: Final = "tailscale/k8s-proxy"
_RECORDER: Final = "tailscale/tsrecorder"
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_IDENTITY_TOKEN: Final = Path("/var/run/secrets/tailscale/serviceaccount/token")
_RESOLV_CONF: Final = Path("/etc/resolv.conf")
_RESOLV_CONF_LIMIT: Final = 10 * 1024
_DEFAULT_CLUSTER_DOMAIN: Final = "cluster.local"
_DNS_NAME = re.compile(r"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_SHARE = re.compile(r"1/[1-9][0-9]{0,8}")  # the nameserver accepts the same form

_FIREWALL_MODES: Final = ("", "auto", "iptables", "nftables")
_PORT_MAX: Final = 65535
_TRUE: Final = ("true", "1", "t", "T", "TRUE", "True")  # the values that the Go operator reads as true; ours is first
_FALSE: Final = ("false", "0", "f", "F", "FALSE", "False")

_OWN_NAME = re.compile(r"(OPERATOR|PROXY|CLIENT|APISERVER)_[A-Z_]+")
_OF_A_SERVICE = re.compile(r".*_(SERVICE_HOST|(SERVICE_)?PORT(_.*)?)")  # set by Kubernetes in every container
_ALIKE: Final = 0.85  # a name that is so similar to a setting's name (1.0 is equal) counts as misspelt


class InvalidSetting(Exception):
    """An error: a setting is wrong. The message names the variable and says which values are valid."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that the operator was started with."""

    namespace: str
    client_id_file: Path
    client_secret_file: Path
    client_id: str = ""
    """The ID of a client for workload identity; empty if the operator uses the credentials in the two files.

    If there is such an ID, *identity_token* is the file with a token of our ServiceAccount.
    """
    identity_token: Path = _IDENTITY_TOKEN
    login_server: str = ""
    proxy_image: str = "tailscale/tailscale:latest"
    k8s_proxy_image: str = f"{_K8S_PROXY}:latest"
    """The image of ProxyGroups of type kube-apiserver."""
    recorder_image: str = f"{_RECORDER}:latest"
    proxy_tags: tuple[str, ...] = ("tag:k8s",)
    proxy_priority_class: str = ""
    proxy_class: str = ""
    proxy_ca_bundle: str = ""
    """The ConfigMap with CAs that proxies trust besides those of their image; empty if there is none."""
    firewall_mode: str = ""
    default_load_balancer: bool = False
    manage_cluster_dns: bool = False
    """True if the operator has the right to write into the configuration of the cluster's DNS."""
    makes_dnsconfig: bool = False
    """True if the operator makes a DNSConfig by itself where the cluster has none."""
    take_over_names: bool = False
    ingress_class: str = DEFAULT_INGRESS_CLASS
    share_acme_account: bool = False
    """True if ProxyGroups of type ingress share one ACME account, unless their annotation says otherwise."""
    nameserver_image: str = "tailscale/k8s-nameserver:stable"
    nameserver_log_queries: str = ""
    """The share of the queries that the nameserver logs, such as ``1/1000``; empty: none."""
    zones: tuple[str, ...] = ()
    """The zones of MagicDNS names. If there are none, they follow from the known suffixes of the tailnets."""
    cluster_dns_configmap: str = ""
    """The ConfigMap in kube-system from which CoreDNS reads its Corefile, if its name isn't one of the usual names."""
    cluster_dns: tuple[str, ...] = ()
    """The DNS servers that Pods ask, each with or without a port; none if they aren't known."""
    watch_namespaces: tuple[str, ...] = ()
    """The namespaces of users' objects, besides the operator's own. If there are none, we watch all namespaces."""
    cluster_domain: str = _DEFAULT_CLUSTER_DOMAIN
    move_grace: float = 35.0
    """Seconds for which the old proxies of an egress Service stay after the Service points at new proxies.

    In this time, a client can still connect to an old address that it has looked up: in clusters made by kubeadm,
    CoreDNS lets clients cache answers for 30 s. No variable sets this.
    """
    newcomer_wait: float = 8.0
    """Seconds for which a new proxy of a ProxyGroup gets no connections while older proxies serve an egress Service.

    A proxy keeps its WireGuard key when its Pod is replaced, so for 6.5 s a device can send to the old Pod's address.
    In this time, the device's answer to a first connection gets lost, and WireGuard repeats the answer only after 5 s.
    No variable sets this.
    """
    kubeconfig: str = ""
    leader_election: bool = True
    pod_name: str = ""
    operator_secret: str = ""
    """The Secret with the state of the operator's own device; empty: the operator has none."""
    operator_hostname: str = "tailscale-operator"
    operator_tags: tuple[str, ...] = ("tag:k8s-operator",)
    """The tags that the operator's own device gets when it is registered."""
    operator_image: str = ""
    """The image that the operator and the API server proxy run; empty if OPERATOR_IMAGE isn't set."""
    operator_port: str = ""
    """The UDP port at which the operator's own device listens, if it serves the API server; empty: the usual one."""
    apiserver_proxy: ProxyMode = ProxyMode.OFF
    apiserver_proxy_http: bool = False
    """True if the API server proxy also answers plain HTTP."""
    service_account: str = "operator"
    """The name of our ServiceAccount.

    Tailnets with workload identity trust its tokens, and the admission policies of ProxyGroupPolicies let it write.
    """
    health_address: str = ":9002"
    status_address: str = "127.0.0.1:9003"
    """The address of the report on all objects, for people who are allowed to forward a port of this Pod."""
    log_level: str = "INFO"
    log_format: Literal["text", "json"] = "text"
    """The format of the operator's log and of the nameserver's."""
    warnings: tuple[str, ...] = ()
    """Messages about faults of the settings that don't keep the operator from starting."""

    @property
    def control_url(self) -> str:
        """The control server's URL, for the API and for proxies."""
        return self.login_server or DEFAULT_CONTROL_URL


def read_settings(environ: Mapping[str, str], identity_token: Path = _IDENTITY_TOKEN) -> Settings:
    """Return the settings in *environ*. Raises InvalidSetting.

    An empty variable counts as unset, and blanks and line breaks around a value are ignored. *identity_token* is the
    file with the ServiceAccount's token for workload identity.
    """
    warnings = [*_misspelt(environ)]
    given = _as_ours({name: value.strip() for name, value in environ.items() if value.strip()}, warnings)
    namespace = _namespace(given)
    defaults = _with_credentials(namespace, given, identity_token)
    level = _one_of(given, "OPERATOR_LOGGING", tuple(LOG_LEVELS)) or "info"
    log_format = _one_of(given, "OPERATOR_LOG_FORMAT", LOG_FORMATS)
    proxy_image = _image(given, "PROXY_IMAGE", defaults.proxy_image)
    own_domain = cluster_domain(resolv_conf(), namespace)
    return replace(
        defaults,
        login_server=_url(given, "OPERATOR_LOGIN_SERVER"),
        proxy_image=proxy_image,
        k8s_proxy_image=_image(given, "K8S_PROXY_IMAGE", f"{_K8S_PROXY}:{image_tag(proxy_image) or 'stable'}"),
        recorder_image=_image(given, "RECORDER_IMAGE", f"{_RECORDER}:{image_tag(proxy_image) or 'stable'}"),
        proxy_tags=_tags(given, "PROXY_TAGS") or defaults.proxy_tags,
        proxy_priority_class=_object_name(given, "PROXY_PRIORITY_CLASS_NAME"),
        proxy_class=_object_name(given, "PROXY_DEFAULT_CLASS"),
        proxy_ca_bundle=_object_name(given, "PROXY_CA_BUNDLE"),
        firewall_mode=_one_of(given, "PROXY_FIREWALL_MODE", _FIREWALL_MODES),
        default_load_balancer=_boolean(given, "OPERATOR_DEFAULT_LOAD_BALANCER", default=False),
        take_over_names=_boolean(given, "OPERATOR_TAKE_OVER_NAMES", default=False),
        makes_dnsconfig=_boolean(given, "OPERATOR_DNS_ENABLED", default=False),
        manage_cluster_dns=_boolean(given, "OPERATOR_MANAGE_CLUSTER_DNS", default=False),
        share_acme_account=_boolean(given, "OPERATOR_SHARED_ACME_ACCOUNT_KEY", default=False),
        ingress_class=_object_name(given, "OPERATOR_INGRESS_CLASS_NAME") or defaults.ingress_class,
        nameserver_image=_image(given, "OPERATOR_NAMESERVER_IMAGE", defaults.nameserver_image),
        nameserver_log_queries=_share(given, "OPERATOR_NAMESERVER_LOG_QUERIES"),
        zones=_zones(given, "OPERATOR_DNS_ZONES", own_domain),
        cluster_dns_configmap=_object_name(given, "OPERATOR_CLUSTER_DNS_CONFIGMAP"),
        cluster_dns=_servers(given, "OPERATOR_CLUSTER_DNS") or cluster_dns(resolv_conf(), namespace),
        watch_namespaces=_namespaces(given, "OPERATOR_WATCH_NAMESPACES"),
        cluster_domain=own_domain,
        kubeconfig=_kubeconfig(given, "KUBECONFIG"),
        leader_election=_boolean(given, "OPERATOR_LEADER_ELECTION", default=True),
        pod_name=_object_name(given, "POD_NAME"),
        operator_secret=_object_name(given, "OPERATOR_SECRET"),
        operator_hostname=_hostname(given, "OPERATOR_HOSTNAME") or defaults.operator_hostname,
        operator_tags=_tags(given, "OPERATOR_INITIAL_TAGS") or defaults.operator_tags,
        operator_image=_image(given, "OPERATOR_IMAGE", "") if "OPERATOR_IMAGE" in given else "",
        operator_port=_port(given, "TS_PORT"),
        apiserver_proxy=_apiserver_proxy(given),
        apiserver_proxy_http=_boolean(given, "APISERVER_PROXY_HTTP", default=False),
        service_account=_object_name(given, "OPERATOR_SERVICE_ACCOUNT_NAME") or defaults.service_account,
        health_address=_address(environ, "OPERATOR_HEALTH_ADDR", defaults.health_address),
        status_address=_address(environ, "OPERATOR_STATUS_ADDR", defaults.status_address),
        log_level=LOG_LEVELS[level],
        log_format="json" if log_format == "json" and level != DEV else "text",
        warnings=tuple(warnings),
    )


def resolv_conf() -> str:
    """Return this Pod's ``resolv.conf``; empty if it can't be read or is larger than 10 KiB."""
    return _read(_RESOLV_CONF)


def cluster_domain(resolv_conf: str, namespace: str) -> str:
    """Return the cluster's domain, from the search path in a Pod's *resolv_conf*; ``cluster.local`` if it has none."""
    search: list[str] = []
    for line in resolv_conf.splitlines():
        words = line.partition("#")[0].split()
        if words and words[0] == "search":
            search += words[1:]
    match [domain.removesuffix(".") for domain in search]:
        case [first, second, third, *_] if first.startswith(f"{namespace}.svc") and second.startswith("svc."):
            domain = second.removeprefix("svc.")
            if domain and domain.lower() == third.lower():
                return domain
    return _DEFAULT_CLUSTER_DOMAIN


def cluster_dns(resolv_conf: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS servers in a Pod's *resolv_conf*; none if the Pod doesn't ask the cluster's DNS."""
    lines = [line.partition("#")[0].split() for line in resolv_conf.splitlines()]
    asks_cluster = any(line[0] == "search" and line[1].startswith(f"{namespace}.svc.") for line in lines if line[1:])
    servers = (line[1] for line in lines if line[1:] and line[0] == "nameserver")
    return tuple(filter(_is_server, servers)) if asks_cluster else ()


def _read(path: Path) -> str:
    try:
        with path.open() as file:
            text = file.read(_RESOLV_CONF_LIMIT + 1).strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if len(text) <= _RESOLV_CONF_LIMIT else ""


def _as_ours(given: Mapping[str, str], warnings: list[str]) -> Mapping[str, str]:
    """Return *given* with our spelling in place of each value that only the Go operator accepts.

    Add a warning to *warnings* for each value that is replaced, and one if the variable AUTH_PROXY is set, which is the
    old name of a setting.
    """
    ours = {**given}
    for name in ("OPERATOR_DEFAULT_LOAD_BALANCER", "OPERATOR_SHARED_ACME_ACCOUNT_KEY", "AUTH_PROXY"):
        for form in (_TRUE, _FALSE):
            if given.get(name) in form[1:]:
                ours[name] = form[0]
                warnings.append(f"{name}: {given[name]!r} is read as {form[0]}: write {form[0]}")
    if "AUTH_PROXY" in given:
        warnings.append("AUTH_PROXY is the old name of a setting: unset it, and set APISERVER_PROXY instead")
    for name in ("PROXY_TAGS", "OPERATOR_INITIAL_TAGS"):
        tags = split_tags(given.get(name, ""))
        if "" in tags and any(tags):
            ours[name] = ",".join(filter(None, tags))
            warnings.append(f"{name}: {given[name]!r} has a comma too many: write {ours[name]}")
    return ours


def _misspelt(environ: Iterable[str]) -> Iterable[str]:
    """Yield a warning for each variable that looks like a misspelt setting."""
    for name in sorted({*environ} - VARIABLES.keys()):
        if _OWN_NAME.fullmatch(name) and not _OF_A_SERVICE.fullmatch(name):
            longer = [each for each in VARIABLES if name.endswith(f"_{each}")]  # such as OPERATOR_PROXY_TAGS
            for alike in longer or get_close_matches(name, VARIABLES, n=1, cutoff=_ALIKE):
                yield f"{name} is no setting and is not read: do you mean {alike}?"


def _namespace(given: Mapping[str, str]) -> str:
    """Return the operator's namespace: the one that is set, or else that of the ServiceAccount."""
    namespace = given.get("OPERATOR_NAMESPACE") or _read(_NAMESPACE_FILE)
    if not namespace:
        raise InvalidSetting("OPERATOR_NAMESPACE is not set, and there is no ServiceAccount to take the namespace from")
    if error := namespace_error(namespace):
        raise InvalidSetting(f"OPERATOR_NAMESPACE: {error}")
    return namespace


def _apiserver_proxy(given: Mapping[str, str]) -> ProxyMode:
    """Return the mode of the API server proxy. Raises InvalidSetting, for example if its device has no Secret."""
    mode = _one_of(given, "APISERVER_PROXY", tuple(ProxyMode))
    old = _one_of(given, "AUTH_PROXY", (ProxyMode.AUTH, ProxyMode.OFF))
    found = ProxyMode(mode or old or ProxyMode.OFF)
    error = modes_error(mode, old)
    if found is not ProxyMode.OFF:
        error = error or device_secret_error(given.get("OPERATOR_SECRET", ""))
    if error:
        raise InvalidSetting(error)
    return found


def _with_credentials(namespace: str, given: Mapping[str, str], identity_token: Path) -> Settings:
    if "CLIENT_ID" not in given:
        return Settings(namespace, _file(given, "CLIENT_ID_FILE", "ID"), _file(given, "CLIENT_SECRET_FILE", "secret"))
    if error := _unreadable(identity_token):
        raise InvalidSetting(
            f"CLIENT_ID asks for workload identity: {error}; project a token of the operator's ServiceAccount there "
            "(oauth.audience of the chart does), or unset CLIENT_ID and set CLIENT_ID_FILE and CLIENT_SECRET_FILE"
        )
    return Settings(namespace, Path(), Path(), given["CLIENT_ID"], identity_token)


def _file(given: Mapping[str, str], name: str, holds: str) -> Path:
    path = Path(given.get(name, ""))
    if name not in given:
        raise InvalidSetting(f"{name} is not set: give the path of the file that holds the OAuth client's {holds}")
    if error := _unreadable(path):
        raise InvalidSetting(f"{name}: {error}")
    return path


def _unreadable(path: Path) -> str:
    try:
        path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        return unreadable(path, error)
    return ""


def _url(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "").removesuffix("/")
    if value and (error := control_url_error(value)):
        raise InvalidSetting(f"{name}: {error}")
    return value


def _image(given: Mapping[str, str], name: str, default: str) -> str:
    image = given.get(name, default)
    if error := image_error(image):
        raise InvalidSetting(f"{name}: {error}")
    return image


def _object_name(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "")
    if value and (error := object_name_error(value)):
        raise InvalidSetting(f"{name}: {error}")
    return value


def _hostname(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "")
    if value and (error := dns_label_error(value)):
        raise InvalidSetting(f"{name}: {error}")
    return value


def _port(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "")
    if value and not (value.isascii() and value.isdigit() and int(value) <= _PORT_MAX):
        raise InvalidSetting(f"{name}: {value!r} is not a UDP port: give a number up to {_PORT_MAX}")
    return value


def _kubeconfig(given: Mapping[str, str], name: str) -> str:
    """Return the paths of kubeconfigs in the variable *name*. Raises InvalidSetting if none of the files exists."""
    paths = given.get(name, "")
    if paths and not any(Path(path).expanduser().exists() for path in paths.split(os.pathsep)):
        raise InvalidSetting(f"{name}: there is no file {paths!r}")
    return paths


def _tags(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    tags = split_tags(given[name]) if name in given else ()
    for tag in tags:
        if error := tag_error(tag):
            raise InvalidSetting(f"{name}: {error}")
    return tags


def _zones(given: Mapping[str, str], name: str, own_domain: str) -> tuple[str, ...]:
    zones = tuple(zone.strip().strip(".").lower() for zone in given[name].split(",")) if name in given else ()
    for zone in zones:
        if not _DNS_NAME.fullmatch(zone) or len(zone) > DNS_NAME_MAX:
            raise InvalidSetting(
                f"{name}: {zone!r} is not a DNS zone; give a comma-separated list such as "
                "tail1234.ts.net,tail.example.org"
            )
        if takes_from_cluster(zone, own_domain):
            raise InvalidSetting(
                f"{name}: {zone!r} would take names from the cluster, whose domain is {own_domain}: leave it out of "
                "operatorConfig.zones of the chart. Without zones, the operator finds out the domains of your tailnets"
            )
    return zones


def _share(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "")
    if value and not _SHARE.fullmatch(value):
        raise InvalidSetting(f"{name}: {value!r} is not a share such as 1/1000; 1/1 is all")
    return value


def _servers(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    servers = tuple(each.strip() for each in given[name].split(",")) if name in given else ()
    for server in servers:
        if not _is_server(server):
            raise InvalidSetting(
                f"{name}: {server!r} is not the address of a DNS server; give a comma-separated list such as "
                "10.96.0.10 or 192.0.2.1:5353,[2001:db8::1]:53"
            )
    return servers


def _is_server(text: str) -> bool:
    try:
        server_address(text)
    except ValueError:
        return False
    return True


def _namespaces(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    names = [each.strip() for each in given[name].split(",")] if name in given else []
    for each in names:
        if error := namespace_error(each):
            raise InvalidSetting(
                f"{name}: {error}; give a comma-separated list such as team-a,team-b, or nothing for all"
            )
    return tuple(dict.fromkeys(names))


def _one_of(given: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = given.get(name, "")
    if value and value not in allowed:
        raise InvalidSetting(f"{name}: {value!r} is not one of {', '.join(filter(None, allowed))}")
    return value


def _boolean(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = _one_of(given, name, ("true", "false"))
    return default if not value else value == "true"


def _address(environ: Mapping[str, str], name: str, default: str) -> str:
    """Return the address in the variable *name*; *default* if the variable is unset. Raises InvalidSetting.

    An empty address is valid. It turns off the server that would listen at the address.
    """
    value = environ.get(name, default).strip()
    host, colon, port = value.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    valid = colon and port.isascii() and port.isdigit() and int(port) <= _PORT_MAX and (":" not in host or bracketed)
    if value and not valid:
        raise InvalidSetting(
            f"{name}: {value!r} is not ADDRESS:PORT, such as :9002 or 127.0.0.1:9002; empty turns it off"
        )
    return value
