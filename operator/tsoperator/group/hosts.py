"""The proxies of an ingress ProxyGroup as hosts of Tailscale Services (docs/development/groups.md)."""

from collections.abc import Iterable
from typing import Final

from tsoperator.api.device import domain_of
from tsoperator.api.names import LABEL_SECRET_TYPE, SECRET_TYPE_CERTS
from tsoperator.api.objects import Object, key_of, labels
from tsoperator.proxy.secret import advertised_services, device_of
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView

__all__ = ["BY_CERTIFICATE", "NO_SERVICE", "ServiceView", "advertising", "by_certificate", "domain_of_group"]

BY_CERTIFICATE: Final = "certificate"
"""The index of the Secrets with certificates of Tailscale Services, by the label of the Service."""


def domain_of_group(states: Iterable[Object]) -> str:
    """Return the domain of the MagicDNS names of a group's tailnet, from its *slim* state Secrets by ordinal.

    It is empty until a proxy has reported its device.
    """
    found = (domain_of(device_of(each, None).fqdn) for each in states)
    return next(filter(None, found), "")


def advertising(states: Iterable[Object], name: str) -> list[Object]:
    """Return those of the *slim* state Secrets of a group whose proxies advertise the Tailscale Service *name*."""
    return [each for each in states if name in advertised_services(each)]


def by_certificate(secret: Object) -> Iterable[str]:
    """Index the Secrets with certificates of Tailscale Services, each of which is named after its domain."""
    if labels(secret).get(LABEL_SECRET_TYPE) != SECRET_TYPE_CERTS:
        return ()
    return (key_of(secret).name.partition(".")[0],)
