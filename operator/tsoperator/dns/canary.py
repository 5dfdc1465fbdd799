"""The canary: a name that the operator adds to each zone, and that only the nameserver of one DNSConfig knows.

The operator writes the canary into the records, and asks the cluster's DNS for the canary. The right answer shows that
the cluster's DNS has asked this nameserver. The canary has the address of the nameserver's Service. No device has such
a name, because names in a tailnet have no underscore.
"""

import contextlib
import hashlib
import ipaddress
from typing import Final

from tsoperator.api.objects import Object

CANARY_PREFIX: Final = "_nameserver-"
"""The start of the name of every canary."""

_DIGITS: Final = 10


def canary_name(uid: str, zone: str) -> str:
    """Return the name of the canary in *zone*.

    The name depends on the *uid* of the DNSConfig, so the nameserver of another cluster has no record for it.
    """
    return f"{CANARY_PREFIX}{hashlib.sha256(uid.encode()).hexdigest()[:_DIGITS]}.{zone}"


def service_addresses(service: Object | None) -> list[str]:
    """Return the cluster IPs of the nameserver's *service* in the form that DNS answers have; empty if it has none."""
    spec = (service or {}).get("spec") or {}
    addresses = []
    for each in spec.get("clusterIPs") or [spec.get("clusterIP", "")]:
        with contextlib.suppress(ValueError):  # it may be empty or None
            addresses.append(str(ipaddress.ip_address(each)))
    return addresses
