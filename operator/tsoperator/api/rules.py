"""Rules for names: functions that form the names of children, and functions that check values which a user wrote.

A rule on user input returns ``None`` if the input is valid. Otherwise it returns one line for the message of a
condition. The line says what is wrong and how to fix it.
"""

import base64
import hashlib
import ipaddress
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

PARENT_NAME_MAX: Final = 43
"""The most characters of a parent's name that a child's name contains.

With this limit, the child's name has at most `STATEFULSET_NAME_MAX` characters.
"""
DNS_LABEL_MAX: Final = 63
STATEFULSET_NAME_MAX: Final = 52
"""The most characters in the name of a StatefulSet, because a label of its Pods has the name with a hash behind it."""
DNS_NAME_MAX: Final = 253

_DNS_PORT: Final = 53
_SITES: Final = ipaddress.IPv6Network("fd7a:115c:a1e0:b1a::/64")
"""The prefix of 4via6 addresses. After it come the number of the site, in 32 bits, and the IPv4 address."""
_TAILNET: Final = (ipaddress.IPv4Network("100.64.0.0/10"), ipaddress.IPv6Network("fd7a:115c:a1e0::/48"))

_TAILSCALES_ZONE: Final = "ts.net"
_LABELS_BELOW: Final = 2  # before ts.net in each name; names of other control servers have any number of labels

_NOT_IN_CONTROL_URL = re.compile(r"[\s?#]")
_DNS_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NOT_IN_DNS_LABEL = re.compile(r"[^A-Za-z0-9-]")
_TAGS_BETWEEN = re.compile(r"[;|\s]+")
_TAG = re.compile(r"tag:[A-Za-z][A-Za-z0-9-]*")


def server_address(server: str) -> tuple[str, int]:
    """Return the address and the port of a DNS *server*, written as 192.0.2.1, 192.0.2.1:53 or [2001:db8::1]:53.

    Raises ValueError if it is none of these.
    """
    try:
        return str(ipaddress.ip_address(server)), _DNS_PORT
    except ValueError:
        parts = urlsplit(f"//{server}")
        if parts.netloc != server or parts.username is not None or parts.port == 0:
            raise
        return str(ipaddress.ip_address(parts.hostname or "")), parts.port or _DNS_PORT


def control_url_error(value: str) -> str | None:
    """Say why *value* can't be the URL of a control server."""
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and parts.username is None
    except ValueError:
        good = False
    if good and not _NOT_IN_CONTROL_URL.search(value):
        return None
    return f"{_quoted(value)} is not the URL of a control server: write one such as https://headscale.example.org"


def unreadable(path: Path, error: OSError | UnicodeDecodeError) -> str:
    """Say that the file at *path* can't be read, and why."""
    why = "it holds no text" if isinstance(error, UnicodeDecodeError) else error.strerror
    return f"cannot read {_quoted(str(path))}: {why}"


def child_base_name(parent_name: str) -> str:
    """Return the beginning of the name of a child.

    It is ``ts-`` and the parent's name, cut and turned into a DNS label.
    """
    return f"ts-{parent_name[:PARENT_NAME_MAX].replace('.', '-')}".rstrip("-")


def peer_relay_name(parent_name: str) -> str:
    """Return the name of the StatefulSet of a PeerRelay. The names of the PeerRelay's other children begin with it."""
    return f"peerrelay-{parent_name}"


@lru_cache(maxsize=4096)  # each reconcile of a proxy asks several times
def child_name(parent_name: str, parent_uid: str) -> str:
    """Return the name for a new child: a DNS label of at most 52 characters, always the same for one parent."""
    digest = base64.b32encode(hashlib.sha256(parent_uid.encode()).digest())[:5].decode().lower()
    return f"{child_base_name(parent_name)}-{digest}"


def apiserver_proxy_name(secret: str) -> str:
    """Return the name that the chart gives the objects of the API server proxy with the state Secret *secret*.

    If the name would be too long, only the part with the name of the Secret is cut. So the name never becomes equal to
    that of the operator's own objects.
    """
    part = "-apiserver-proxy"
    return secret[: DNS_LABEL_MAX - len(part)].removesuffix("-") + part


def dns_label_error(value: str) -> str | None:
    """Say why *value* is no DNS label of 1 to 63 letters, digits and hyphens (RFC 1123, upper case allowed)."""
    if error := _label_error(value):
        host = _host_in(value) or value
        first = "" if is_address(host) else host.partition(".")[0]
        alike = _NOT_IN_DNS_LABEL.sub("-", first.strip())
        hint = f", as in {_quoted(alike)}" if alike != value else ""
        if host != first or host != value:
            hint = f"; write only {_quoted(first)}, because the tailnet adds its domain" if alike == first else ""
        return f"{error}{hint if _DNS_LABEL.fullmatch(alike) else ''}"
    return None


def _label_error(value: str) -> str | None:
    if _DNS_LABEL.fullmatch(value):
        return None
    return f"{_quoted(value)} is not a valid DNS label: {_label_fault(value)}"


def namesake_error(name: str, longest: int = STATEFULSET_NAME_MAX) -> str | None:
    """Say why *name* can't be the name of a parent whose children are named after it.

    *longest* is the greatest number of characters in such a name.
    """
    if len(name) <= longest and not dns_label_error(name):
        return None
    return (
        f"its name must be a DNS label of at most {longest} characters, because its objects are named after it: make "
        "it anew with another"
    )


def namespace_error(value: str) -> str | None:
    """Say why *value* can't be the name of a namespace, which is a DNS label in lower case."""
    if value != value.lower():
        return f"{_quoted(value)} is not a valid namespace: its letters must be lower case"
    return _label_error(value)


def object_name_error(value: str) -> str | None:
    """Say why *value* can't be the name of an object, which is a DNS name in lower case (RFC 1123)."""
    if _OBJECT_NAME.fullmatch(value) and len(value) <= DNS_NAME_MAX:
        return None
    return (
        f"{_quoted(value)} is not a valid name of an object: it may have lower case letters, numbers, hyphens and "
        f"dots, must start and end with a letter or number, and must have at most {DNS_NAME_MAX} characters"
    )


def fqdn_error(value: str, zones: Iterable[str], *, anywhere: bool = False) -> str | None:
    """Say why *value* is no MagicDNS name.

    A MagicDNS name has at least one label before one of *zones*, and can end in a dot. Before ``ts.net`` it must have
    exactly two labels, as the Go operator requires. With *anywhere*, a name outside of *zones* is valid, too, if it has
    a dot.
    """
    known = [zone.strip(".") for zone in zones]
    if value != (bare := value.strip()):
        return f"{_quoted(value)} is not a MagicDNS name: write {bare} without blanks and line breaks around it"
    if "*" in value:
        return f"{_quoted(value)} is not a MagicDNS name: write the full name of one device, as in db.tail1234.ts.net"
    if host := _host_in(value):
        return f"{_quoted(value)} is not a MagicDNS name: {_only(host)}"
    name = value.removesuffix(".")
    zone = next((zone for zone in known if name.lower().endswith(f".{zone.lower()}")), "")
    if not zone and not (anywhere and "." in name):
        return (
            f"{_quoted(value)} is not a MagicDNS name in the zone {' or '.join(known)}: "
            "give the device's full name, as the tailnet's admin console shows it"
        )
    if len(name) > DNS_NAME_MAX:
        return f"{_quoted(value)} is not a valid MagicDNS name: it is longer than {DNS_NAME_MAX} characters"
    below = (name[: -len(zone) - 1] if zone else name).split(".")
    if zone.lower() == _TAILSCALES_ZONE and len(below) != _LABELS_BELOW:
        return (
            f"{_quoted(value)} is not a MagicDNS name: before {zone} come {_LABELS_BELOW} labels, the device's and the "
            f"tailnet's, as in db.tail1234.{zone}"
        )
    wrong = next((label for label in below if not _DNS_LABEL.fullmatch(label)), None)
    if wrong is None:
        return None
    return f"{_quoted(value)} is not a valid MagicDNS name: label {_quoted(wrong)} {_label_fault(wrong)}"


def takes_from_cluster(zone: str, cluster_domain: str) -> bool:
    """Tell whether *zone* and *cluster_domain*, the cluster's own domain, have names in common.

    A nameserver for such a zone would have to answer for names of the cluster's own Services.
    """
    zone, own = f".{zone}", f".{cluster_domain.strip('.').lower()}"
    return zone.endswith(own) or own.endswith(zone)


def target_ip_error(value: str) -> str | None:
    """Say why *value* is no IPv4 or IPv6 address that a proxy can lead to."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        if (host := _host_in(value)) and not re.fullmatch(r"[^/]+/\d+", value):
            return f"{_quoted(value)} is not an IP address: {_only(host)}"
        if is_address(bare := value.strip().strip("[]")):
            return f"{_quoted(value)} is not an IP address: write {bare} without brackets and blanks around it"
        hint = "without a prefix length" if "/" in value else "such as 100.64.0.1"
        return f"{_quoted(value)} is not an IP address: give one IPv4 or IPv6 address, {hint}"
    address = getattr(address, "ipv4_mapped", None) or address
    kinds = {
        "a loopback": address.is_loopback,
        "a link-local": address.is_link_local,
        "a multicast": address.is_multicast,
        "an unspecified": address.is_unspecified,
    }
    if kind := next((kind for kind, is_so in kinds.items() if is_so), ""):
        return f"{_quoted(value)} is {kind} address, which no device of a tailnet has: give the address of one"
    return None


def needs_route(address: str) -> bool:
    """Tell whether a proxy reaches *address* only by a route that another device advertises.

    That is so for all addresses that a tailnet doesn't give to devices, and for 4via6 addresses.
    """
    ip = ipaddress.ip_address(address)
    return ip in _SITES or not any(ip in network for network in _TAILNET)


def is_address(text: str) -> bool:
    """Tell whether *text* is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def tag_error(tag: str) -> str | None:
    """Say why *tag* is not a valid tag, as the tailnet's policy writes tags; None if it is."""
    if _TAG.fullmatch(tag):
        return None
    if not tag:
        return "a tag is empty: remove the comma too many, or write a tag such as tag:k8s"
    if len(found := _TAGS_BETWEEN.split(tag)) > 1 and all(map(_TAG.fullmatch, found)):
        return f"{_quoted(tag)} is not a valid tag: write a comma between two tags, as in {','.join(found)}"
    return (
        f"{_quoted(tag)} is not a valid tag: write one such as tag:k8s, with a letter first after the colon, "
        "and then only letters, digits and hyphens"
    )


def split_tags(value: str) -> tuple[str, ...]:
    """Return the comma-separated tags in *value*, without white space around them.

    An empty tag stays, so that `tag_error` reports it.
    """
    return tuple(tag.strip() for tag in value.split(","))


def is_true(value: str | None) -> bool:
    """Tell whether an annotation's *value* is exactly ``true``, the only value that turns something on."""
    return value == "true"


def _host_in(value: str) -> str:
    """Return the host in *value*, a URL or a host with a port or a path; empty if *value* has no such form."""
    if ":" not in value and "/" not in value:
        return ""
    try:
        parts = urlsplit(value if "://" in value else f"//{value}")
        has_more = bool(parts.scheme or parts.port is not None or parts.path)
    except ValueError:
        return ""
    return parts.hostname or "" if has_more and not re.search(r"\s", value) else ""


def _only(host: str) -> str:
    return f"write only {host}. The ports are in spec.ports, and a client gives scheme, port and path itself"


def _label_fault(value: str) -> str:
    if not value:
        return "must not be empty"
    if len(value) > DNS_LABEL_MAX:
        return f"must have at most {DNS_LABEL_MAX} characters, not {len(value)}"
    if value[0] == "-" or _NOT_IN_DNS_LABEL.match(value):
        return "must start with a letter or number"
    if value[-1] == "-" or _NOT_IN_DNS_LABEL.match(value[-1]):
        return "must end with a letter or number"
    return "may only contain letters, numbers and hyphens"


def _quoted(value: str) -> str:
    """Return *value* in quotes and on one line."""
    return json.dumps(value, ensure_ascii=False)
