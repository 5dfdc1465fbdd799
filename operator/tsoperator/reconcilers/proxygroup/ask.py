"""Parses a ProxyGroup into an `Ask` once, with its defaults, or with the reasons why it is invalid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tsoperator.api.names import AUTH_PROXY_SERVICE_ACCOUNT
from tsoperator.api.objects import Key, Object, key_of, spec_text
from tsoperator.api.rules import namesake_error
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.proxygroup import ProxyGroup
from tsoperator.group.claims import impersonates
from tsoperator.group.grouptype import EGRESS, GroupType, type_of
from tsoperator.group.proxygroup import group_owner
from tsoperator.proxy.classref import UNSET_DEFAULT
from tsoperator.proxy.replica import hostnames_error, replicas_error
from tsoperator.runtime.ownership import Owner
from tsoperator.settings import Settings

_VOLUME_NAME_MAX: Final = 63  # a volume has the name of the ConfigMap, which must be a DNS label


@dataclass(frozen=True, slots=True)
class Ask:
    """The requests in a ProxyGroup *group*, completed by the operator's settings.

    *class_name* is its ProxyClass and *tailnet* its Tailnet; each is empty if there is none. Both are known even if the
    group is invalid. If its class doesn't exist, the user can create it, or do what *without_class* says.

    The group is of *type*. If the type can't be read, it is taken to be egress.

    *unreadable* says why the group can't be parsed, and *wrong* what else is wrong with it. A group that can be parsed
    has *replicas*. Their devices have *tags*, and hostnames that begin with *hostname_prefix*.
    """

    group: Object
    type: GroupType
    class_name: str
    without_class: str
    tailnet: str
    unreadable: str = ""
    wrong: Sequence[str] = ()
    replicas: int = 0
    tags: Sequence[str] = ()
    hostname_prefix: str = ""

    @property
    def key(self) -> Key:
        """The key of the ProxyGroup."""
        return key_of(self.group)

    @property
    def owner(self) -> Owner:
        """The owner of the ProxyGroup's children, as their labels name it."""
        return group_owner(self.key.name)

    @property
    def has_account(self) -> bool:
        """True if the Pods run under a ServiceAccount of their own, which the operator makes."""
        return not impersonates(self.group)


def parse(group: Object, settings: Settings) -> Ask:
    """Return the requests in a ProxyGroup *group*, which need not be valid."""
    without = "change spec.proxyClass" if spec_text(group, "proxyClass") else UNSET_DEFAULT
    class_, tailnet, type_ = class_name(group, settings), spec_text(group, "tailnet"), type_of(group) or EGRESS
    asked = Ask(group, type_, class_, without, tailnet)
    parsed = ProxyGroup.parse(group)
    if isinstance(parsed, Invalid):
        return replace(asked, unreadable=parsed.message)
    spec = parsed.spec
    return replace(
        asked,
        wrong=_violations(parsed, asked),
        replicas=spec.replicas,
        tags=spec.tags or settings.proxy_tags,
        hostname_prefix=spec.hostname_prefix or parsed.metadata.name,
    )


def class_name(group: Object, settings: Settings) -> str:
    """Return the ProxyClass that a ProxyGroup names, or the default; empty for none."""
    return spec_text(group, "proxyClass") or settings.proxy_class


def _violations(group: ProxyGroup, asked: Ask) -> list[str]:
    """Return what is wrong with *group*; each violation says how to fix it."""
    name, longest, found = group.metadata.name, _VOLUME_NAME_MAX - len(asked.type.config_suffix), []
    if error := namesake_error(name, longest):
        found.append(error)
    if name == AUTH_PROXY_SERVICE_ACCOUNT and asked.has_account:
        found.append(f"the name {name} is that of a ServiceAccount of other groups: make it anew with another")
    if error := replicas_error(group.spec.replicas):
        found.append(f"{error}, or make another ProxyGroup beside it")
    if group.spec.hostname_prefix and (error := hostnames_error(group.spec.hostname_prefix, group.spec.replicas)):
        found.append(error)
    return found
