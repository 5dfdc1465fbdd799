"""Decides which Tailscale Services the proxies of an ingress ProxyGroup serve and advertise.

The decision is always made for the whole group, from the facts about the Ingresses and Services that name it. A
Tailscale Service that this operator doesn't own gets no new entry, and no new proxy advertises it
(docs/development/groups.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from tsoperator.api.objects import Key, Object, is_deleting, spec_of
from tsoperator.api.owners import Ownership, ownership
from tsoperator.api.tailscaleservice import PREFIX, service_name
from tsoperator.group.claims import LabelClaim
from tsoperator.proxy.hosting import Hosted, HostReport, Rule, rule_for, rules_document, serve_document
from tsoperator.proxy.paths import hosted_paths
from tsoperator.proxy.serve import hosted_config
from tsoperator.proxy.serviceview import NO_SERVICE, ServiceView

SIZE_MAX: Final = 660 * 1024
"""The largest number of bytes in the documents of an ingress ConfigMap.

They are stored in base64, which is a third longer, and the API server accepts a ConfigMap of up to 1 MiB.
"""


@dataclass(frozen=True, slots=True)
class Exposed:
    """The facts about an Ingress or a Service that asks the group to expose it.

    *claim* is the claim of the object on a label in the tailnet. *label* is the label under which the group serves the
    object, or should serve it. *view* is the Tailscale Service with this label, as the tailnet of the group shows it,
    and *holder* is the claim that has the label. An Ingress leads to the Services in *backends*, by name. The object
    *is_ready* if one of its backends has a ready endpoint. The proxies advertise a Service only while it is ready. The
    same is true for an Ingress that several operators expose. They advertise any other Ingress even while it isn't
    ready. *has_certificate* tells whether there is a certificate for the MagicDNS name of the object.
    """

    claim: LabelClaim
    label: str
    view: ServiceView = NO_SERVICE
    holder: LabelClaim | None = None
    backends: Mapping[str, Object] = field(default_factory=dict)
    is_ready: bool = False
    has_certificate: bool = False

    @property
    def name(self) -> str:
        """The name of the Tailscale Service."""
        return service_name(self.label)


class Host(NamedTuple):
    """The facts about a proxy of the group.

    *pod* is its Pod; None if there is none. *report* is its report about its rules; None if there is none. *advertised*
    are the Tailscale Services that its config tells it to advertise now. If the proxy hasn't joined the tailnet,
    *has_joined* is False: it still needs the auth key in its config.
    """

    pod: Object | None = None
    report: HostReport | None = None
    advertised: tuple[str, ...] = ()
    has_joined: bool = True


@dataclass(frozen=True, slots=True)
class Exposing:
    """The facts about an ingress group and the objects that it exposes.

    *there* is the present content of the group's ConfigMap, and *hosts* are its proxies by ordinal. *domain* is the
    domain of the tailnet's names; it is empty until a proxy has reported it. *operator_id* is the ID of the operator;
    it is empty as long as it isn't known.

    If *sees_all* is False, the operator doesn't see all Ingresses and Services, so the entries for which it finds no
    object stay as they are. The entries of the *awaited* Tailscale Services stay, too: their objects name another group
    now, which can't serve them yet.
    """

    exposed: Sequence[Exposed] = ()
    there: Hosted = field(default_factory=Hosted)
    hosts: Mapping[int, Host] = field(default_factory=dict)
    domain: str = ""
    operator_id: str = ""
    sees_all: bool = True
    awaited: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Offer:
    """The decision for a group: what its ConfigMap should have, and what each proxy should advertise.

    *hosted* is the wanted content of the ConfigMap. *advertised* has the names of the Tailscale Services to advertise,
    by the ordinal of the proxy. *left_out* are the objects for which the ConfigMap has no room. If the operator has yet
    to read a Tailscale Service, *pending* is the exception by which the reconcile waits for it.
    """

    hosted: Hosted = field(default_factory=Hosted)
    advertised: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    left_out: Sequence[Key] = ()
    pending: Exception | None = None


class _Draws(Enum):
    """A choice of the proxies that should advertise a Tailscale Service, and so can get its traffic."""

    ALL = auto()
    NONE = auto()
    AS_NOW = auto()
    """The proxies that advertise the Tailscale Service now."""
    WITH_RULE = auto()
    """The proxies that have put the rule for the Tailscale Service into effect."""


class _Decision(NamedTuple):
    """The decision on one object: its entry, and the proxies that should advertise its Tailscale Service.

    The entry is a *rule* for a Service, and a part of the serve config (*served*) for an Ingress.
    """

    rule: Rule | None
    served: Object | None
    draws: _Draws


_NOTHING: Final = _Decision(None, None, _Draws.NONE)


def offer(exposing: Exposing) -> Offer:
    """Return the Tailscale Services that the proxies of a group should serve and advertise."""
    decided = {each.name: _decision(each, exposing) for each in sorted(exposing.exposed, key=_holders_last)}
    there = exposing.there
    kept = exposing.awaited
    if not exposing.sees_all:
        kept = kept.union(there.names, *(host.advertised for host in exposing.hosts.values()))
    for name in kept - decided.keys():
        decided[name] = _Decision(there.rules.get(name), there.served.get(name), _Draws.AS_NOW)
    hosted = _hosted(decided)
    left_out = _left_out(exposing, decided) if hosted != there and not _fits(hosted) else []
    if left_out:
        decided |= dict.fromkeys((each.name for each in left_out), _NOTHING)
        hosted = _hosted(decided)
    advertised = {ordinal: _advertised(host, decided) for ordinal, host in exposing.hosts.items()}
    pending = next((each.view.pending for each in exposing.exposed if each.view.pending), None)
    return Offer(hosted, advertised, [each.claim.key for each in left_out], pending)


def kept_label(claim: LabelClaim, there: Hosted) -> str:
    """Return the label under which the object of *claim* should be served.

    It is the label for which a valid object asks. An invalid object possibly doesn't ask for its label any more. So its
    label is the one under which it is served now or, if it isn't served, the one for which it asks. *there* is the
    content of the group's ConfigMap.
    """
    return served_label(claim, there) or claim.label if claim.wrong else claim.label


def served_label(claim: LabelClaim, there: Hosted) -> str:
    """Return the label under which the object of *claim* is served now; empty if there is none.

    The status of an Ingress or a ProxyGroup shows the label. For a Service, the label is in *there*, the content of the
    group's ConfigMap.
    """
    if not claim.is_web:
        addresses = {*_cluster_ips(claim.obj)}
        found = (name for name, rule in there.rules.items() if any(to.cluster_ip in addresses for to in rule.values()))
        return next(found, "").removeprefix(PREFIX)
    status = claim.obj.get("status") or {}
    shown = (status.get("loadBalancer") or {}).get("ingress") or ()
    hostname = next((each["hostname"] for each in shown if each.get("hostname")), "")
    return str(hostname or status.get("url", "").removeprefix("https://")).partition(".")[0]


def _holders_last(each: Exposed) -> bool:
    """Tell whether the claim of the object *each* has its label.

    This is a sort key. If several objects have one label, the decision on the last of them replaces the others, so the
    object that holds the label has to be the last.
    """
    return each.holder is not None and each.holder.rank == each.claim.rank


def _decision(each: Exposed, exposing: Exposing) -> _Decision:
    claim, holder, there = each.claim, each.holder, exposing.there
    has_label = holder is not None and holder.rank == claim.rank
    is_holder = has_label and not claim.wrong
    if is_deleting(claim.obj) or (holder is not None and not has_label):
        return _NOTHING
    kept = _Decision(
        None if claim.is_web else there.rules.get(each.name),
        there.served.get(each.name) if claim.is_web else None,
        _Draws.AS_NOW,
    )
    if not (exposing.operator_id and each.view.tells_owner):
        return kept
    service = each.view.service
    if service is None:
        return _NOTHING
    relation = ownership(service, exposing.operator_id)
    if not relation.is_owner:
        return kept  # the operator isn't an owner any more, or has a new ID, so it changes nothing
    if claim.is_web:
        if is_holder and not exposing.domain:
            return kept
        served = _served(each, f"{each.label}.{exposing.domain}") if is_holder else kept.served
        answers = served is not None and (each.has_certificate or _serves_http(served))
        may_draw = each.is_ready or relation is not Ownership.SHARED
        return _Decision(None, served, _Draws.ALL if answers and may_draw else _Draws.NONE)
    rule = rule_for(service, _cluster_ips(claim.obj)) if is_holder else kept.rule
    return _Decision(rule or None, None, _Draws.WITH_RULE if rule and each.is_ready else _Draws.NONE)


def _served(each: Exposed, name: str) -> Object:
    """Return the serve config for the Ingress *each*, whose MagicDNS name is *name*."""
    claim = each.claim
    paths = hosted_paths(claim.obj, each.backends, name)
    return hosted_config(name, paths.origins, serves_http=claim.serves_http, redirects=claim.redirects)


def _serves_http(served: Object) -> bool:
    ports = served.get("TCP")
    return isinstance(ports, dict) and "80" in ports


def _cluster_ips(service: Object) -> Sequence[str]:
    spec = spec_of(service)
    return spec.get("clusterIPs") or [spec.get("clusterIP", "")]


def _advertised(host: Host, decided: Mapping[str, _Decision]) -> tuple[str, ...]:
    """Return the Tailscale Services that the proxy *host* should advertise.

    Those that it advertises already come first, in their present order.
    """
    wanted = {name for name, each in decided.items() if _is_drawn(name, each, host)}
    kept = [each for each in dict.fromkeys(host.advertised) if each in wanted]
    # While the proxy still needs the auth key in its config, we add nothing: a changed config would need another key.
    return (*kept, *sorted(wanted.difference(kept))) if host.has_joined else (*kept,)


def _is_drawn(name: str, decision: _Decision, host: Host) -> bool:
    if decision.draws is _Draws.AS_NOW:
        # If the Pod is about to be replaced, the next Pod has no rules at first, so packets would get lost.
        return name in host.advertised and (decision.rule is None or _is_staying(host.pod))
    if decision.draws is _Draws.WITH_RULE:
        return _is_in_effect(name, decision.rule, host)
    return decision.draws is _Draws.ALL


def _is_staying(pod: Object | None) -> bool:
    return pod is not None and not is_deleting(pod)


def _is_in_effect(name: str, rule: Rule | None, host: Host) -> bool:
    """Tell whether the present Pod of a proxy reports that it uses the *rule* for the Tailscale Service *name*."""
    pod, report = host.pod, host.report
    if pod is None or report is None or not _is_staying(pod) or report.rules.get(name) != rule:
        return False
    addresses = {each["ip"] for each in (pod.get("status") or {}).get("podIPs") or ()}
    return bool(addresses) and addresses == {each for each in (report.ip4, report.ip6) if each}


def _hosted(decided: Mapping[str, _Decision]) -> Hosted:
    return Hosted(
        {name: each.rule for name, each in decided.items() if each.rule is not None},
        {name: each.served for name, each in decided.items() if each.served is not None},
    )


def _fits(hosted: Hosted) -> bool:
    """Tell whether the ConfigMap has room for all of *hosted*."""
    return len(rules_document(hosted.rules)) + len(serve_document(hosted.served)) <= SIZE_MAX


def _left_out(exposing: Exposing, decided: Mapping[str, _Decision]) -> list[Exposed]:
    """Return the objects for whose entries the ConfigMap has no room.

    An object that has an entry already keeps it. Among the other objects, the oldest get the room that is left.
    """
    sizes = {name: _size(name, each) for name, each in decided.items()}
    new = {each.name: each for each in sorted(exposing.exposed, key=lambda each: each.claim.rank)}
    new = {name: each for name, each in new.items() if name not in exposing.there.names and sizes[name]}
    left = SIZE_MAX - sum(size for name, size in sizes.items() if name not in new)
    found = []
    for name, each in new.items():
        if sizes[name] > left:
            found.append(each)
        else:
            left -= sizes[name]
    return found


def _size(name: str, decision: _Decision) -> int:
    """Return the number of bytes that an entry adds to the documents, or a number that is slightly too high."""
    if decision.served is not None:
        return len(serve_document({name: decision.served}))
    return len(rules_document({name: decision.rule})) if decision.rule else 0
