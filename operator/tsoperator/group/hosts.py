"""The proxies of an ingress ProxyGroup as hosts of Tailscale Services (docs/development/groups.md)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tsoperator.api.device import domain_of
from tsoperator.api.names import LABEL_SECRET_TYPE, SECRET_TYPE_CERTS
from tsoperator.api.objects import Object, key_of, labels
from tsoperator.api.tailscaleservice import ServiceHost, TailscaleService
from tsoperator.proxy.secret import advertised_services, device_of
from tsoperator.runtime.plan import Refusal

BY_CERTIFICATE: Final = "certificate"
"""The index of the Secrets with certificates of Tailscale Services, by the label of the Service."""


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A Tailscale Service as the operator knows it.

    *service* is None if the tailnet has none of that name. Its annotations are known, unless *pending* is there: the
    exception that a reconcile raises to wait until the Service has been read. *hosts* are the devices that host it.
    *refusal* says why the control server doesn't show the Service, or has refused the last change of it.
    """

    service: TailscaleService | None = None
    hosts: Sequence[ServiceHost] = ()
    refusal: Refusal | None = None
    pending: Exception | None = None


NO_SERVICE = ServiceView()
"""The view of a Tailscale Service that certainly isn't there."""


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
