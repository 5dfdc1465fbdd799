"""The Sources that several reconcilers share: the objects to watch, the stored part of each object, and the indexes.

Sources and indexes that only one reconciler needs are in its `Kind`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tsoperator.api.names import ADMISSION_EGRESS, ADMISSION_INGRESS, AUTH_PROXY_SERVICE_ACCOUNT, LABEL_MANAGED, MANAGED
from tsoperator.api.objects import (
    ADMISSIONBINDING,
    ADMISSIONPOLICY,
    CONFIGMAP,
    CRD,
    DAEMONSET,
    DEPLOYMENT,
    ENDPOINTSLICE,
    INGRESS,
    INGRESSCLASS,
    OWN_KINDS,
    POD,
    PROXYGROUP,
    ROLE,
    ROLEBINDING,
    SECRET,
    SECRET_METADATA,
    SERVICE,
    SERVICEACCOUNT,
    SERVICEMONITOR,
    STATEFULSET,
    Key,
    Object,
    Resource,
    key_of,
)
from tsoperator.dns import nameclaims
from tsoperator.dns.cluster.platforms import COREDNS, OPENSHIFT_DNS, OPENSHIFT_NAME, configmap_names
from tsoperator.dns.cluster.platforms import NAMESPACE as DNS_NAMESPACE
from tsoperator.group import claims, hosts, ports, proxygroup
from tsoperator.group import egress as egressgroup
from tsoperator.kube.watch import Selection
from tsoperator.proxy import entries, hosting, pod, secret
from tsoperator.proxy.endpoints import BY_SERVICE, by_service, slim_slice
from tsoperator.proxy.paths import BY_BACKEND, by_backend
from tsoperator.runtime.cache import Index, Source, only_identity, without_managed_fields
from tsoperator.runtime.ownership import (
    BY_GROUPED_OWNER,
    BY_METRICS_OWNER,
    BY_OWNER,
    OF_RECORDERS,
    by_grouped_owner,
    by_metrics_owner,
    by_owner,
    within,
)

_SLIM: Final = {POD: pod.slim, SECRET: secret.slim}
"""The functions that make children slim, by kind, for those kinds of which the operator reads only a little."""


def sources(namespace: str, watched: Sequence[str] = (), corefile: str = "") -> list[Source]:
    """Return the Sources of the operator's cache that several kinds share.

    We watch our own objects in the operator's *namespace*. We watch users' objects in that namespace and in the
    *watched* ones, or in all namespaces if *watched* is empty. *corefile* is the name that the user's settings give for
    the ConfigMap of CoreDNS; empty if they give none.
    """
    return [*_of_users(namespace, watched), *_of_cluster(), *_cluster_dns(corefile), *_ours(namespace)]


def _of_users(namespace: str, watched: Sequence[str]) -> Iterator[Source]:
    """Yield Sources of the objects that users make, and of all Services and EndpointSlices, including our own."""
    places = [*dict.fromkeys((namespace, *watched))] if watched else [""]
    owned = {BY_OWNER: within(namespace, by_owner), BY_METRICS_OWNER: within(namespace, by_metrics_owner)}
    grouped = {
        BY_GROUPED_OWNER: within(namespace, by_grouped_owner),
        egressgroup.BY_SERVING_GROUP: within(namespace, egressgroup.by_serving_group),
    }
    allocated = {ports.BY_PROXY_PORT: within(namespace, ports.by_proxy_port)}
    named = {nameclaims.BY_DEVICE_NAME: within(namespace, nameclaims.by_device_name)}
    entered = {egressgroup.BY_ENTRY: egressgroup.by_entry}
    labelled = {claims.BY_LABEL: claims.by_label}
    hosted = {**labelled, proxygroup.BY_GROUP: proxygroup.by_group}

    def users(
        resource: Resource,
        indexes: Mapping[str, Index] | None = None,
        slim: Callable[[Object], Object] = without_managed_fields,
    ) -> Iterator[Source]:
        for place in places if resource.namespaced else [""]:
            # The owner of a namespace can shut us out of it. Our work in the other namespaces must go on.
            yield Source(Selection(resource, place), indexes or {}, slim, optional=place not in ("", namespace))

    yield from users(SERVICE, {**owned, **grouped, **allocated, **named, **entered, **hosted})
    yield from users(INGRESS, {BY_BACKEND: by_backend, **hosted})
    yield from users(ENDPOINTSLICE, {**grouped, BY_SERVICE: by_service}, slim_slice(namespace))
    for resource in (INGRESSCLASS, *OWN_KINDS):
        yield from users(resource, labelled if resource == PROXYGROUP else {})


def _of_cluster() -> Iterator[Source]:
    """Yield Sources of admission policies and their bindings, and of the CRD of ServiceMonitors."""
    # An API server older than Kubernetes 1.30 has no such policies, and an older installation can lack the rights.
    for kind in (ADMISSIONPOLICY, ADMISSIONBINDING):
        yield Source(Selection(kind), slim=_admission, optional=True)
    yield Source(Selection(CRD, field_selector=f"metadata.name={SERVICEMONITOR}"), slim=only_identity)


def _ours(namespace: str) -> Iterator[Source]:
    """Yield Sources of our own objects in the operator's *namespace*, except for Services and EndpointSlices.

    Also yield the Sources of two sorts of objects in *namespace* that aren't ours: the metadata of users' Secrets, and
    the chart's ServiceAccount for API server proxies.
    """
    managed = f"{LABEL_MANAGED}={MANAGED}"
    owned = {BY_OWNER: within(namespace, by_owner)}
    certified = {hosts.BY_CERTIFICATE: hosts.by_certificate}
    yield Source(Selection(SERVICEMONITOR, namespace, managed), {BY_METRICS_OWNER: within(namespace, by_metrics_owner)})
    yield Source(Selection(SECRET_METADATA, namespace, f"!{LABEL_MANAGED}"), slim=only_identity)
    secrets = {**owned, secret.BY_DEVICE: secret.by_device, **certified}
    yield Source(Selection(SECRET, namespace, managed), secrets, secret.slim)
    yield Source(Selection(STATEFULSET, namespace, managed), owned)
    yield Source(Selection(POD, namespace, managed), owned, pod.slim)
    yield Source(Selection(CONFIGMAP, namespace, managed), slim=_configmap)
    for resource in (DEPLOYMENT, SERVICEACCOUNT):
        yield Source(Selection(resource, namespace, managed))
    yield Source(Selection(SERVICEACCOUNT, namespace, field_selector=f"metadata.name={AUTH_PROXY_SERVICE_ACCOUNT}"))
    for resource in (ROLE, ROLEBINDING):
        yield Source(Selection(resource, namespace, managed), certified)
    for resource in (POD, ROLE, ROLEBINDING, SECRET, SERVICEACCOUNT, STATEFULSET):
        slim = _SLIM.get(resource, without_managed_fields)
        yield Source(Selection(resource, namespace, OF_RECORDERS), owned, slim)


def _cluster_dns(corefile: str) -> Iterator[Source]:
    """Yield Sources of the objects that configure and run the cluster's DNS.

    The Sources are optional, because an older installation of the operator can lack the rights to read these objects.
    """
    places = [(CONFIGMAP, Key(DNS_NAMESPACE, name)) for name in configmap_names(corefile)]
    places += [(resource, Key(DNS_NAMESPACE, COREDNS)) for resource in (DEPLOYMENT, DAEMONSET)]
    for resource, key in (*places, (OPENSHIFT_DNS, Key("", OPENSHIFT_NAME))):
        selection = Selection(resource, key.namespace, field_selector=f"metadata.name={key.name}")
        yield Source(selection, optional=True, without=True)


def _admission(obj: Object) -> Object:
    """Return the part of an admission policy or a binding that the cache stores.

    This is the whole object if the object has a name that the operator gives to its own policies and bindings.
    Otherwise it is only the object's identity.
    """
    is_ours = key_of(obj).name.startswith((ADMISSION_INGRESS, ADMISSION_EGRESS))
    return without_managed_fields(obj) if is_ours else only_identity(obj)


def _configmap(obj: Object) -> Object:
    """Return the slim form of *obj*, one of our ConfigMaps. Documents for the proxies of a group are parsed."""
    return hosting.slim_hosting(entries.slim_configmap(obj))
