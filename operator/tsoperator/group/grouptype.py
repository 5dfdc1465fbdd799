"""The differences between the types of ProxyGroups; each type is one value (docs/development/groups.md)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tsoperator.api.names import ACCOUNTS, ACME_ACCOUNT_KEY, ANNOTATION_SHARE_ACCOUNT
from tsoperator.api.objects import Object, annotations, spec_text
from tsoperator.group.claims import KUBE_APISERVER
from tsoperator.group.configmap import egress_configmap_steps
from tsoperator.group.exposing import Offer
from tsoperator.group.ingressconfig import ingress_configmap_steps
from tsoperator.proxy.annotations import Vocabulary, no_annotations
from tsoperator.proxy.proxypod import ProxyPod, egress_group, ingress_group, kube_apiserver_group
from tsoperator.runtime.plan import Step
from tsoperator.settings import Settings


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a ProxyGroup: the objects that it serves.

    *services* are the ClusterIP Services of egress Services. *offer* has the Tailscale Services that an ingress group
    should serve and advertise.
    """

    services: Sequence[Object] = ()
    offer: Offer = field(default_factory=Offer)


@dataclass(frozen=True, slots=True)
class GroupType:
    """The parts of a ProxyGroup that depend on its type.

    *pod* returns the description of a group's Pods, and *work* says in words what the proxies do. If the type *drains*,
    a Pod that is about to end waits until new connections go to other Pods, and a new Pod becomes ready only when its
    gate opens.

    A ConfigMap, whose name ends in *config_suffix*, tells the proxies what to do. If the suffix is empty, the group has
    no ConfigMap. *configmap_steps* returns the steps that make the ConfigMap right. Its arguments are the wanted
    ConfigMap without its content; the live ConfigMap; the work of the group; the number of replicas, if it is known;
    and the domain of the cluster.

    If the type *exposes* Ingresses and Services, its proxies advertise their Tailscale Services. A type that
    *offers_api* has proxies of another image, k8s-proxy, which offer the Kubernetes API as one Tailscale Service.
    *shares_account* tells whether the proxies share an ACME account with those of other groups.

    *vocabulary* has the annotations that the operator reads on the group.
    """

    pod: Callable[[Object, Settings], ProxyPod]
    work: str
    drains: bool
    exposes: bool
    config_suffix: str
    configmap_steps: Callable[[Object, Object | None, Work, int | None, str], Sequence[Step]]
    shares_account: Callable[[Object, Settings], bool]
    vocabulary: Vocabulary
    offers_api: bool = False

    def config_name(self, group: str) -> str:
        """Return the name of the ConfigMap of *group*; empty if the type has none."""
        return f"{group}{self.config_suffix}" if self.config_suffix else ""

    @property
    def hosts(self) -> bool:
        """True if the proxies advertise Tailscale Services."""
        return self.exposes or self.offers_api


def _shares_account(group: Object, settings: Settings) -> bool:
    """Tell whether the ingress group *group* shares its ACME account with other groups of its tailnet."""
    given = annotations(group).get(ANNOTATION_SHARE_ACCOUNT)
    return settings.share_acme_account if given is None else given == "true"


def _ingress_pod(group: Object, settings: Settings) -> ProxyPod:
    if not _shares_account(group, settings):
        return ingress_group({"TS_DEBUG_ACME_FORCE_RENEWAL": "true"})
    name = f"{spec_text(group, 'tailnet') or '_default'}.{ACME_ACCOUNT_KEY}"
    return ingress_group({"TS_ACME_ACCOUNT_SECRET_NAME": ACCOUNTS, "TS_ACME_ACCOUNT_FIELD": name})


_PREFIX_FIELD: Final = "spec.hostnamePrefix"

EGRESS: Final = GroupType(
    pod=lambda _group, _settings: egress_group(),
    work="forward traffic to the tailnet",
    drains=True,
    exposes=False,
    config_suffix="-egress-config",
    configmap_steps=lambda wanted, live, work, replicas, domain: egress_configmap_steps(
        wanted, live, work.services, replicas, domain
    ),
    shares_account=lambda _group, _settings: False,
    vocabulary=no_annotations("ProxyGroup", _PREFIX_FIELD),
)
"""The type of the groups whose proxies lead Pods to devices of the tailnet."""

INGRESS: Final = GroupType(
    pod=_ingress_pod,
    work="serve the tailnet",
    drains=False,
    exposes=True,
    config_suffix="-ingress-config",
    configmap_steps=lambda wanted, live, work, _replicas, _domain: ingress_configmap_steps(
        wanted, live, work.offer.hosted
    ),
    shares_account=_shares_account,
    vocabulary=no_annotations("ProxyGroup", _PREFIX_FIELD, known=[ANNOTATION_SHARE_ACCOUNT]),
)
"""The type of the groups whose proxies expose Ingresses and Services to the tailnet."""

APISERVER: Final = GroupType(
    pod=lambda _group, _settings: kube_apiserver_group(),
    work="offer the Kubernetes API",
    drains=False,
    exposes=False,
    config_suffix="",
    configmap_steps=lambda _wanted, _live, _work, _replicas, _domain: (),
    shares_account=lambda _group, _settings: False,
    vocabulary=no_annotations("ProxyGroup", _PREFIX_FIELD),
    offers_api=True,
)
"""The type of the groups whose proxies offer the Kubernetes API to the tailnet."""

TYPES: Final[Mapping[str, GroupType]] = {"egress": EGRESS, "ingress": INGRESS, KUBE_APISERVER: APISERVER}
"""The types of ProxyGroups, by name."""


def type_of(group: Object) -> GroupType | None:
    """Return the type of the ProxyGroup *group*; None if *group* is invalid, because `TYPES` doesn't have its type."""
    return TYPES.get(spec_text(group, "type"))
