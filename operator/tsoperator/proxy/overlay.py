"""Changes the StatefulSet of a proxy as its ProxyClass asks (docs/development/proxies.md).

This module must leave out or clear the same fields as the Go operator does. With any difference, Pods that the Go
operator made would restart.

A class can make a proxy listen at the address of its Pod. So we have to know before we make the Pod whether that is an
IPv4 or an IPv6 address: the image takes an address and a port as one text, in which only an IPv6 address has brackets.
With the wrong format the proxy doesn't start. Correcting the template doesn't help, because Kubernetes doesn't replace
a Pod that was never ready.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tsoperator.api.names import ANNOTATION_LAST_CLUSTER_DNS_NAME, SYSCTL_CONTAINER
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.proxyclass import Container, Pod, ProxyClassSpec
from tsoperator.proxy.metrics import METRICS_PORT, METRICS_PORT_NAME
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.proxypod import ProxyPod
from tsoperator.runtime.given import with_given

_DEBUG_PORT: Final = 9001
_STAGING_DIRECTORY: Final = "https://acme-staging-v02.api.letsencrypt.org/directory"
_POD_IPV4: Final = "$(POD_IP)"
_POD_IPV6: Final = "[$(POD_IP)]"
_HOSTS: Final = {_POD_IPV4: False, _POD_IPV6: True}
_REFERENCE = re.compile(r"\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


def with_class(
    statefulset: Object, proxy: Proxy, pods: Sequence[Object], live: Object | None, service: Object | None
) -> Object | None:
    """Return the *statefulset* of *proxy* with the changes that its ProxyClass asks for.

    Return None while it isn't known whether the Pods should listen at an IPv4 or an IPv6 address. The existing *pods*
    show that, or else the StatefulSet *live*, or else the headless *service*.
    """
    if proxy.proxy_class is None:
        return statefulset
    ipv6 = _pods_have_ipv6(pods, live, service)
    if ipv6 is None and _has_endpoints(proxy.proxy_class, proxy.pod):
        return None
    return overlaid(statefulset, proxy.proxy_class, proxy.pod, ipv6=bool(ipv6))


def _pods_have_ipv6(pods: Sequence[Object], statefulset: Object | None, service: Object | None) -> bool | None:
    """Tell whether the first address of a proxy's Pods is an IPv6 address; None if that isn't known yet.

    The addresses of the Pods decide. If there are no Pods, the variables in *statefulset* decide, so that its template
    doesn't change back and forth. If there is no StatefulSet either, the headless *service* decides: its first IP
    family is the cluster's first one.
    """
    for pod in pods:
        if address := (pod.get("status") or {}).get("podIP"):
            return ":" in address
    for host in _hosts(statefulset) if statefulset else ():
        if host in _HOSTS:
            return _HOSTS[host]
    if service is None:
        return None
    families: Sequence[str] = service["spec"].get("ipFamilies") or ()
    return families[:1] == ["IPv6"]


def _hosts(statefulset: Object) -> Iterable[str]:
    """Yield the text before the last colon in each environment variable of the containers.

    If the value of the variable is a host and a port, this text is the host.
    """
    for container in statefulset["spec"]["template"]["spec"]["containers"]:
        for variable in container.get("env") or ():
            yield str(variable.get("value", "")).rpartition(":")[0]


def overlaid(statefulset: Object, spec: ProxyClassSpec, proxy_pod: ProxyPod, *, ipv6: bool = False) -> Object:
    """Return the *statefulset* of a proxy with Pods like *proxy_pod*, with the changes that the class *spec* asks for.

    *ipv6* says that the first address of its Pods is an IPv6 address.
    """
    template = statefulset["spec"]["template"]
    metadata, pod_spec = template["metadata"], _with_endpoints(template["spec"], spec, proxy_pod, ipv6)
    given = spec.stateful_set
    if given is not None and given.pod is not None:
        metadata = _pod_metadata(metadata, given.pod)
        pod_spec = _with_pod_fields(pod_spec, given.pod, proxy_pod.container)
    template = {**template, "metadata": metadata, "spec": pod_spec}
    made = {**statefulset, "spec": {**statefulset["spec"], "template": template}}
    return with_given(made, given.labels, given.annotations) if given is not None else made


def _has_endpoints(spec: ProxyClassSpec, proxy_pod: ProxyPod) -> bool:
    """Tell whether a proxy listens at its Pod's address, for metrics or debugging.

    *spec* is the class of the proxy, and *proxy_pod* describes its Pods.
    """
    return proxy_pod.measurable and (_debugs(spec) or spec.is_measured)


def _with_endpoints(pod: Object, spec: ProxyClassSpec, proxy_pod: ProxyPod, ipv6: bool) -> Object:
    """Return *pod*, the spec of Pods, with the variables and ports that a class adds to the proxy's container.

    *spec* is the class, and *proxy_pod* describes the Pods. The variables are for debugging, metrics and certificates,
    in this order. *ipv6* says that the Pods listen at an IPv6 address.
    """
    env: list[Object] = []
    ports: list[Object] = []
    host = _POD_IPV6 if ipv6 else _POD_IPV4
    if proxy_pod.measurable:
        if _debugs(spec):
            env += [
                _variable("TS_DEBUG_ADDR_PORT", f"{host}:{_DEBUG_PORT}"),
                _variable("TS_TAILSCALED_EXTRA_ARGS", "--debug=$(TS_DEBUG_ADDR_PORT)"),
            ]
            ports.append(_port("debug", _DEBUG_PORT))
        if spec.is_measured:
            env += [
                _variable("TS_LOCAL_ADDR_PORT", f"{host}:{METRICS_PORT}"),
                _variable("TS_ENABLE_METRICS", "true"),
            ]
            ports.append(_port(METRICS_PORT_NAME, METRICS_PORT))
    if spec.use_lets_encrypt_staging_environment and proxy_pod.serves_https:
        env.append(_variable("TS_DEBUG_ACME_DIRECTORY_URL", _STAGING_DIRECTORY))

    def extended(container: Object) -> Object:
        if container["name"] != proxy_pod.container:
            return container
        made = {**container, "env": [*container["env"], *env]}
        return {**made, "ports": [*container.get("ports", ()), *ports]} if ports else made

    return {**pod, "containers": [extended(container) for container in pod["containers"]]}


def _debugs(spec: ProxyClassSpec) -> bool:
    """Tell whether the class turns on the debug endpoint. If it doesn't set this, the endpoint is on if metrics are."""
    container = spec.tailscale_container
    debug = container.debug if container else None
    return debug.enable if debug is not None else spec.is_measured


def _pod_metadata(metadata: Object, pod: Pod) -> Object:
    """Return the *metadata* of Pods with the labels and annotations that the class adds.

    If both the class and the operator set a label or an annotation, the operator's value wins. If the class sets any
    annotations, `ANNOTATION_LAST_CLUSTER_DNS_NAME` is left out: existing Pods with such a class don't have it, and
    would restart.
    """
    made = {**metadata, "labels": {**pod.labels, **metadata["labels"]}}
    if pod.annotations:
        ours = {
            key: value
            for key, value in metadata.get("annotations", {}).items()
            if key != ANNOTATION_LAST_CLUSTER_DNS_NAME
        }
        made["annotations"] = {**pod.annotations, **ours}
    return made


def _with_pod_fields(spec: Object, pod: Pod, container: str) -> Object:
    """Return the Pods' *spec* with the fields that the class sets. Most fields that the class doesn't set are cleared.

    *container* is the name of the container in which the proxy runs.
    """
    assigned = {
        "affinity": pod.affinity,
        "imagePullSecrets": [*pod.image_pull_secrets],
        "nodeName": pod.node_name,
        "nodeSelector": dict(pod.node_selector),
        "priorityClassName": pod.priority_class_name,
        "securityContext": pod.security_context,
        "tolerations": [*pod.tolerations],
        "topologySpreadConstraints": [*pod.topology_spread_constraints],
    }
    where_set = {"dnsConfig": pod.dns_config, "dnsPolicy": pod.dns_policy}
    containers = {container: pod.tailscale_container, SYSCTL_CONTAINER: pod.tailscale_init_container}
    made = {name: value for name, value in spec.items() if name not in assigned}
    made |= {name: value for name, value in (assigned | where_set).items() if value}
    for field in ("initContainers", "containers"):
        if field in made:
            made[field] = [_with_container_fields(each, containers.get(each["name"])) for each in made[field]]
    return made


def _with_container_fields(container: Object, given: Container | None) -> Object:
    if given is None:
        return container
    made = dict(container)
    if given.image:
        made["image"] = given.image
    if given.image_pull_policy:
        made["imagePullPolicy"] = given.image_pull_policy
    if given.security_context is not None:
        made["securityContext"] = given.security_context
    if wanted := amounts(given.resources or {}):
        made["resources"] = {**container.get("resources", {}), **wanted}
    if given.env:
        added = [_variable(variable.name, variable.value or "") for variable in given.env]
        made["env"] = _unique([*container.get("env", ()), *added])
    return made


def amounts(resources: Object) -> Object:
    """Return the requests and limits in *resources* with amounts as text, in the API server's form.

    The result leaves out resource claims, because the Pods of proxies have none.
    """
    named = {field: resources.get(field) or {} for field in ("requests", "limits")}
    return {field: {name: str(amount) for name, amount in each.items()} for field, each in named.items() if each}


def _unique(env: Sequence[Object]) -> list[Object]:
    """Return *env* without repeated variables. Of several values of a variable, the final one remains.

    A variable stays at the first position of its name, so that later variables can refer to it. If its final value
    refers to variables that come later, it moves behind these variables. If its final value refers to the variable
    itself, the variable stays repeated with all its values.
    """
    last = {variable["name"]: variable for variable in env}
    made: list[Object] = []
    placed: set[str] = set()
    for variable in env:
        name = variable["name"]
        final = last[name]
        references = _references(final) & last.keys()
        if name in references:
            made.append(variable)
        elif name not in placed and (variable is final or references <= placed):
            made.append(final)
        else:
            continue
        placed.add(name)
    return made


def _references(variable: Object) -> set[str]:
    return set(_REFERENCE.findall(variable.get("value", "")))


def _variable(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def _port(name: str, number: int) -> Object:
    return {"name": name, "containerPort": number, "protocol": "TCP"}
