"""Functions that pick parts of proxies' StatefulSets, for tests of plans."""

from tsoperator.api.objects import Object


def pods_of(statefulset: Object) -> Object:
    """Return the spec of the Pods of *statefulset*."""
    spec: Object = statefulset["spec"]["template"]["spec"]
    return spec


def container_of(statefulset: Object) -> Object:
    """Return the container of tailscaled in *statefulset*."""
    container: Object = pods_of(statefulset)["containers"][0]
    return container
