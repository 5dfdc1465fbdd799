"""Parses a PeerRelay: returns the settings of its relays, or what is wrong with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tsoperator.api.labels import annotation_errors
from tsoperator.api.names import PARENT_PEERRELAY, RELAY_PORT
from tsoperator.api.objects import Key, Object, key_of, spec_of, spec_text, uid
from tsoperator.api.rules import STATEFULSET_NAME_MAX, namesake_error, peer_relay_name
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.peerrelay import ElasticIP, PeerRelay
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.proxy.annotations import no_annotations
from tsoperator.proxy.replica import REPLICAS_MAX, hostnames_error, replicas_error
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Refusal
from tsoperator.settings import Settings

VOCABULARY: Final = no_annotations("PeerRelay", "spec.hostnamePrefix")
"""The annotations and labels of PeerRelays that the operator reads: none."""

INVALID: Final = "PeerRelayInvalid"
AWS_INVALID: Final = "AWSConfigInvalid"

_NAME_MAX: Final = STATEFULSET_NAME_MAX - len(peer_relay_name(""))


@dataclass(frozen=True, slots=True)
class RelayWishes:
    """The settings of the relays of one PeerRelay.

    The hostnames of their devices begin with *hostname_prefix*. *annotations* are for the Service of each relay, and
    *elastic_ips* are the addresses in AWS, by ordinal.
    """

    key: Key
    uid: str
    replicas: int
    hostname_prefix: str
    tags: Sequence[str]
    annotations: Mapping[str, str]
    elastic_ips: Sequence[ElasticIP]

    @property
    def owner(self) -> Owner:
        """The owner of the PeerRelay's children, as their labels name it."""
        return owner(self.key)


@dataclass(frozen=True, slots=True)
class Ask:
    """A PeerRelay *obj*, and the settings of its relays in *wishes*, or what is wrong with the PeerRelay."""

    obj: Object
    wishes: RelayWishes | Refusal


def owner(key: Key) -> Owner:
    """Return the owner of the children of the PeerRelay named *key*."""
    return Owner(PARENT_PEERRELAY, key)


def class_name(relay: Object) -> str:
    """Return the ProxyClass that a PeerRelay names; there is no default for PeerRelays."""
    return spec_text(relay, "proxyClass")


def tailnet_name(relay: Object) -> str:
    """Return the Tailnet that a PeerRelay names; empty for the operator's own."""
    return spec_text(relay, "tailnet")


def replica_count(relay: Object) -> int:
    """Return how many relays the PeerRelay *relay*, which need not be valid, should have."""
    count = spec_of(relay).get("replicas", 1)
    return min(count, REPLICAS_MAX) if isinstance(count, int) and count >= 0 else 0


def parse(relay: Object, _settings: Settings) -> Ask:
    """Return the settings in the PeerRelay *relay*, which need not be valid."""
    return Ask(relay, _wishes(relay))


def _wishes(relay: Object) -> RelayWishes | Refusal:
    parsed = PeerRelay.parse(relay)
    if isinstance(parsed, Invalid):
        return Refusal(f"this PeerRelay is invalid: {parsed.message}", INVALID)
    name, spec = parsed.metadata.name, parsed.spec
    elastic_ips = spec.aws.elastic_ips if spec.aws else ()
    if spec.aws and len(elastic_ips) < spec.replicas:
        return Refusal(
            f"spec.aws.elasticIPs has {len(elastic_ips)} entries but spec.replicas is {spec.replicas}: give each "
            "replica an elastic IP of its own, or lower spec.replicas",
            AWS_INVALID,
        )
    prefix, annotations = spec.hostname_prefix or name, spec.service.annotations if spec.service else {}
    wrong = [error for error in (namesake_error(name, _NAME_MAX), replicas_error(spec.replicas)) if error]
    wrong += [f"spec.service.annotations: {error}" for error in annotation_errors(annotations)]
    if not wrong and (error := hostnames_error(prefix, spec.replicas)):
        wrong.append(error)
    if wrong:
        return Refusal(f"this PeerRelay is invalid: {'; '.join(wrong)}", INVALID)
    return RelayWishes(key_of(relay), uid(relay), spec.replicas, prefix, spec.tags, annotations, elastic_ips)


def class_refusal(proxy_class: ProxyClassSpec | None) -> Refusal | None:
    """Return why relays can't have this class; None if they can.

    They can't if the class makes tailscaled listen at the port at which a relay has to listen.
    """
    stateful_set = proxy_class.stateful_set if proxy_class else None
    pod = stateful_set.pod if stateful_set else None
    container = pod.tailscale_container if pod else None
    given = {each.name: each.value or "" for each in container.env} if container else {}
    flags = given.get("TS_TAILSCALED_EXTRA_ARGS", "").replace("=", " ").split()
    taken = [flag.lstrip("-") for flag, value in pairwise(flags) if value == str(RELAY_PORT)]
    if given.get("PORT") != str(RELAY_PORT) and "port" not in taken:
        return None
    return Refusal(
        f"its ProxyClass makes tailscaled take port {RELAY_PORT}, at which the relay has to listen: leave PORT and "
        "--port out of the class",
        INVALID,
    )
