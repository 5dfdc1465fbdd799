"""The device that the settings ask for, the names of the objects that run it, and the objects that need its ID."""

import re
from dataclasses import dataclass
from typing import Final

from tsoperator.api.names import CONFIG_SUFFIX, DEVICE_SUFFIX, PARENT_OPERATOR
from tsoperator.api.objects import Key, Object, is_deleting
from tsoperator.api.rules import DNS_LABEL_MAX, STATEFULSET_NAME_MAX, apiserver_proxy_name
from tsoperator.group.claims import LabelClaim, claim_of
from tsoperator.proxy.replica import Replica
from tsoperator.runtime.ownership import Owner
from tsoperator.settings import Settings

SECRET_NAME_MAX: Final = STATEFULSET_NAME_MAX - len(DEVICE_SUFFIX)
"""The most characters that the name of the Secret can have, so that the name of the StatefulSet isn't too long."""

_POD_OF_DEPLOYMENT: Final = re.compile(r"(.+)-[a-z0-9]+-[a-z0-9]{5}")


@dataclass(frozen=True, slots=True)
class Ask:
    """The requests in the settings for the operator's own device.

    The state of the device is in the Secret with this *key*. *wrong* says why the operator can't register the device,
    and how to fix that. *own* is the key of the operator's own Deployment.
    """

    key: Key
    hostname: str
    tags: tuple[str, ...]
    own: Key
    wrong: str = ""

    @property
    def owner(self) -> Owner:
        """The owner of the children, as their labels name it: the Secret with the state of the device."""
        return Owner(PARENT_OPERATOR, self.key)

    @property
    def statefulset(self) -> Key:
        """The key of the StatefulSet whose Pod registers the device."""
        return Key(self.key.namespace, self.key.name + DEVICE_SUFFIX)

    @property
    def deployment(self) -> Key:
        """The key of the Deployment of the API server proxy, and of its ServiceAccount."""
        return Key(self.key.namespace, apiserver_proxy_name(self.key.name))

    @property
    def config(self) -> Key:
        """The key of the config Secret of the Pod that registers the device, or serves the API server."""
        return Key(self.key.namespace, self.key.name + CONFIG_SUFFIX)

    @property
    def replica(self) -> Replica:
        """The one replica of the StatefulSet or the Deployment."""
        return Replica(0, self.config, self.key, self.hostname, self.tags)


def ask_of(settings: Settings) -> Ask:
    """Return the requests in *settings* for the operator's own device. The settings must name a Secret."""
    name, wrong = settings.operator_secret, ""
    if len(name) > SECRET_NAME_MAX:
        wrong = (
            f"the name of Secret {name} has {len(name)} characters, and {SECRET_NAME_MAX} are possible: set "
            "OPERATOR_SECRET to a shorter name (fullnameOverride of the chart)"
        )
    own = Key(settings.namespace, own_name(settings))
    return Ask(Key(settings.namespace, name), settings.operator_hostname, settings.operator_tags, own, wrong)


def own_name(settings: Settings) -> str:
    """Return the name of the operator's own Deployment.

    The name of the operator's Pod begins with it. If the Pod's name doesn't show it, for example because Kubernetes has
    cut a long name, return the name of the Secret: the chart gives the Deployment and the Secret the same name.
    """
    found = _POD_OF_DEPLOYMENT.fullmatch(settings.pod_name)
    return found[1] if found and len(settings.pod_name) < DNS_LABEL_MAX else settings.operator_secret


def claim_in_need(obj: Object, settings: Settings) -> LabelClaim | None:
    """Return the claim of *obj* if the operator needs an ID of its own for this claim; otherwise None.

    The operator needs its ID to own a Tailscale Service. It makes a Tailscale Service only for an object that asks for
    one, is valid, and isn't being deleted.
    """
    claim = claim_of(obj, settings)
    return claim if claim and not claim.wrong and not is_deleting(obj) else None
