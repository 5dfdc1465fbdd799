"""What proxies are made of, as tests of the plans for them need it."""

from tsoperator.api.objects import Object
from tsoperator.proxy.statefulset import proxy_pod_spec, proxy_statefulset
from tsoperator.proxy.workload import Proxy
from tsoperator.settings import Settings


def statefulset_of(proxy: Proxy, settings: Settings, live: Object | None = None) -> Object:
    """Return the StatefulSet of a *proxy* without a class; *live* is the one that runs it."""
    spec = proxy_pod_spec(proxy.pod, proxy.replicas, settings, live)
    return proxy_statefulset(proxy.key, proxy.owner, proxy.parent_uid, spec, proxy.replica_count, proxy.pod.annotations)


def pods_of(statefulset: Object) -> Object:
    """Return the spec of the Pods of *statefulset*."""
    spec: Object = statefulset["spec"]["template"]["spec"]
    return spec


def container_of(statefulset: Object) -> Object:
    """Return the container of tailscaled in *statefulset*."""
    container: Object = pods_of(statefulset)["containers"][0]
    return container
