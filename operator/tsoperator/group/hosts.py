"""The proxies of an ingress ProxyGroup as hosts of Tailscale Services (docs/development/groups.md)."""

from collections.abc import Iterable
from typing import Final

from tsoperator.api.device import domain_of
from tsoperator.api.labels import label_value
from tsoperator.api.names import (
    LABEL_DOMAIN,
    LABEL_PARENT_TYPE,
    LABEL_SECRET_TYPE,
    PARENT_INGRESS,
    PARENT_PROXYGROUP,
    SECRET_TYPE_CERTS,
)
from tsoperator.api.objects import Object, key_of, labels
from tsoperator.proxy.secret import advertised_services, fqdn_of
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView

__all__ = ["BY_CERTIFICATE", "NO_SERVICE", "ServiceView", "advertising", "by_certificate", "domain_of_group"]

BY_CERTIFICATE: Final = "certificate"
"""The index of the Secrets, Roles and RoleBindings of certificates, by the label of the Tailscale Service."""


def domain_of_group(states: Iterable[Object]) -> str:
    """Return the domain of the MagicDNS names of a group's tailnet, from the group's *slim* state Secrets by ordinal.

    Return an empty text until a proxy has reported its device.
    """
    found = (domain_of(fqdn_of(each)) for each in states)
    return next(filter(None, found), "")


def advertising(states: Iterable[Object], name: str) -> list[Object]:
    """Return those of the *slim* state Secrets of a group whose proxies advertise the Tailscale Service *name*."""
    return [each for each in states if name in advertised_services(each)]


def may_be_certificates(obj: Object) -> bool:
    """Tell whether *obj* can belong to the certificate of an Ingress or of a ProxyGroup of type kube-apiserver.

    It can if its label for the type of its parent says Ingress or ProxyGroup, or is missing or empty. The Go operator
    sometimes leaves that label empty.
    """
    return labels(obj).get(LABEL_PARENT_TYPE, "") in ("", PARENT_INGRESS, PARENT_PROXYGROUP)


def by_certificate(obj: Object) -> Iterable[str]:
    """Return the values for the index `BY_CERTIFICATE`: the first label of a certificate's domain, or nothing.

    *obj* is a Secret, a Role or a RoleBinding. If it belongs to a certificate, its name is the domain. The result is
    empty if *obj* doesn't belong to a certificate. It is also empty if the name of *obj* isn't the domain in its
    labels, because somebody else made such an object.
    """
    found = labels(obj)
    if LABEL_DOMAIN not in found and found.get(LABEL_SECRET_TYPE) != SECRET_TYPE_CERTS:
        return ()
    name = key_of(obj).name
    label, dot, _ = name.partition(".")
    is_named = bool(dot) and found.get(LABEL_DOMAIN) in (None, label_value(name))
    return (label,) if is_named and may_be_certificates(obj) else ()
