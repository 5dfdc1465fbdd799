"""A proxy as it should be, and the children that it has in the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tsoperator.api.objects import Key, Object, Resource, key_of
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.proxy.proxypod import ProxyPod
from tsoperator.proxy.replica import Replica, ReplicaSecrets
from tsoperator.proxy.tailscaled import ProxyConfig
from tsoperator.runtime.ownership import Owner, owner_reference
from tsoperator.runtime.plan import Note


@dataclass(frozen=True, slots=True)
class Children:
    """The existing children of one proxy; its Secrets are slim.

    *metrics* are its metrics Service and ServiceMonitor. *overdue* is about the Pods that still exist after their grace
    period: it has the number of seconds from the end of that period until now, by the UID of the Pod.
    """

    services: Sequence[Object] = ()
    statefulsets: Sequence[Object] = ()
    secrets: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    metrics: Sequence[Object] = ()
    overdue: Mapping[str, float] = field(default_factory=dict)

    def secret(self, key: Key) -> Object | None:
        """Return the Secret named *key*; None if it isn't there."""
        return _named(self.secrets, key)

    def statefulset(self, key: Key) -> Object | None:
        """Return the StatefulSet named *key*; None if it isn't there."""
        return _named(self.statefulsets, key)

    def service(self, key: Key) -> Object | None:
        """Return the Service named *key*; None if it isn't there."""
        return _named(self.services, key)

    def secrets_of(self, replica: Replica) -> ReplicaSecrets:
        """Return the Secrets of *replica* among these children."""
        return ReplicaSecrets(self.secret(replica.config_secret), self.secret(replica.state_secret))


NO_CHILDREN = Children([], [], [], [], [])


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy as it should be: one StatefulSet, named *key*, whose Pods are its replicas.

    Each replica has a device with the *tags* in the Tailnet called *tailnet*. With a *hostname_prefix*, each replica
    has a hostname of its own. *notes* are Events that say which settings of the parent the operator ignores.

    With a *config_infix* or a *config_suffix*, each replica has two Secrets: the name of its config Secret has the
    infix before the ordinal, and the suffix after it. Otherwise one Secret holds both config and state. If there is a
    *replica_label*, the children of one replica have its ordinal as the value of this label.

    *advertised* has the Tailscale Services that each replica should advertise, by ordinal. *served* has the one that
    each replica should serve, by ordinal, if the proxies offer the Kubernetes API. *account* is the ServiceAccount of
    the Pods. *static_endpoints* has the endpoints at which other devices can reach each replica, by ordinal; the
    Services in *services* lead from there to the Pods.

    If *controller* is given, it is the kind of the parent, and the children have owner references to the parent.
    Otherwise only their labels name the parent. The Secrets of the replicas *left_alone* stay as they are.
    """

    owner: Owner
    parent_uid: str
    key: Key
    pod: ProxyPod
    config: ProxyConfig
    tags: Sequence[str]
    tailnet: str = ""
    replica_count: int = 1
    magic_dns_name: str = ""
    hostname_prefix: str = ""
    proxy_class: ProxyClassSpec | None = None
    notes: Sequence[Note] = ()
    config_suffix: str = ""
    config_infix: str = ""
    advertised: Sequence[tuple[str, ...]] = ()
    served: Sequence[str] = ()
    static_endpoints: Sequence[tuple[str, ...]] = ()
    services: Sequence[Object] = ()
    controller: Resource | None = None
    replica_label: str = ""
    account: str = ""
    left_alone: frozenset[int] = frozenset()

    def child(self, resource: Resource, name: str, content: Object | None = None, **labels: str) -> Object:
        """Return a child of the proxy, an object of *resource* called *name*, with metadata and *content*.

        *labels* are added to the labels that name the parent.
        """
        metadata: Object = {"namespace": self.key.namespace, "name": name, "labels": {**self.owner.labels, **labels}}
        if self.controller is not None:
            owner = owner_reference(self.controller, self.owner.key.name, self.parent_uid)
            metadata["ownerReferences"] = [owner]
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **(content or {})}

    def config_of(self, replica: Replica) -> ProxyConfig:
        """Return the configuration of *replica*, which goes into its config Secret."""
        endpoints = self.static_endpoints[replica.ordinal] if self.static_endpoints else ()
        services = self.advertised[replica.ordinal] if self.advertised else ()
        made = replace(self.config, hostname=replica.hostname, services=services, static_endpoints=endpoints)
        if made.api is None:
            return made
        served, ordinal = self.served[replica.ordinal] if self.served else "", replica.ordinal
        own = replace(made.api, state=replica.state_secret.name, service=served, issues=ordinal == 0)
        return replace(made, api=own)

    @property
    def replicas(self) -> list[Replica]:
        """The replicas, by ordinal."""
        namespace, name = self.key
        return [
            Replica(
                ordinal,
                Key(namespace, f"{name}{self.config_infix}-{ordinal}{self.config_suffix}"),
                Key(namespace, f"{name}-{ordinal}"),
                self._hostname(ordinal),
                self.tags,
            )
            for ordinal in range(self.replica_count)
        ]

    @property
    def shares_hostname(self) -> bool:
        """True if several replicas ask for the same hostname, so that all but one get a name with a number."""
        return self.replica_count > 1 and not self.hostname_prefix

    def ordinal_of(self, secret: Object) -> int | None:
        """Return the ordinal of the replica to which *secret* belongs by its name; None if it belongs to none."""
        stem, _, ordinal = key_of(secret).name.removesuffix(self.config_suffix).rpartition("-")
        stems = (self.key.name, self.key.name + self.config_infix)
        return int(ordinal) if stem in stems and ordinal.isdecimal() else None

    def _hostname(self, ordinal: int) -> str:
        return f"{self.hostname_prefix}-{ordinal}" if self.hostname_prefix else self.config.hostname


def _named(objects: Sequence[Object], key: Key) -> Object | None:
    return next((each for each in objects if key_of(each) == key), None)
