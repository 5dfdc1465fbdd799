"""Fills in defaults as an API server does, but only in the fields that operators compare with desired objects."""

import base64
from typing import Any

from clustersim.errors import bad_request
from clustersim.objects import (
    ADMISSIONBINDING,
    ADMISSIONPOLICY,
    DEPLOYMENT,
    ENDPOINTSLICE,
    INGRESS,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    STATEFULSET,
    Object,
    Resource,
)

_RBAC = "rbac.authorization.k8s.io"
_WITHOUT_GENERATION = {"", "coordination.k8s.io", _RBAC}

_DEPLOYMENT: Object = {
    "replicas": 1,
    "revisionHistoryLimit": 10,
    "progressDeadlineSeconds": 600,
    "strategy": {"type": "RollingUpdate"},
}
_STATEFULSET: Object = {
    "replicas": 1,
    "revisionHistoryLimit": 10,
    "podManagementPolicy": "OrderedReady",
    "updateStrategy": {"type": "RollingUpdate"},
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
}
_POD_SPEC: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
}
_CONTAINER: Object = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE: Object = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def has_generation(resource: Resource) -> bool:
    """Tell whether objects of *resource* carry ``metadata.generation``; Services and Secrets don't."""
    return resource == POD or resource.group not in _WITHOUT_GENERATION


def fill(resource: Resource, obj: Object, old: Object | None) -> None:
    """Fill in the defaults of *obj*, which is about to be created or to replace *old*."""
    if resource in (DEPLOYMENT, STATEFULSET):
        _fill_scalable(resource, obj["spec"] if "spec" in obj else obj.setdefault("spec", {}))
    elif resource == POD:
        _fill_pod(obj.setdefault("spec", {}))
    elif resource == SECRET:
        _fill_secret(obj)
    elif resource == ENDPOINTSLICE:
        _fill_endpointslice(obj)
    elif resource == ADMISSIONPOLICY:
        _default(obj["spec"], {"failurePolicy": "Fail"})
        _fill_matched(obj["spec"].setdefault("matchConstraints", {}))
    elif resource == ADMISSIONBINDING and obj["spec"].get("matchResources"):
        _fill_matched(obj["spec"]["matchResources"])
    if old is None and resource.status and resource != NODE:
        _reset_status(resource, obj)


def _reset_status(resource: Resource, obj: Object) -> None:
    """Replace the status of a new object by the one that the API server writes, because a client can't set it."""
    obj.pop("status", None)
    if resource == POD:
        obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    elif resource == NAMESPACE:
        obj["status"] = {"phase": "Active"}
    elif resource == STATEFULSET:
        obj["status"] = {"replicas": 0}
    elif resource == DEPLOYMENT:
        obj["status"] = {}
    elif resource == INGRESS or resource.kind == "Service":
        obj["status"] = {"loadBalancer": {}}


def _default(obj: Object, defaults: Object) -> None:
    for field, value in defaults.items():
        if obj.get(field) is None:
            obj[field] = dict(value) if isinstance(value, dict) else value


def _each(obj: Object, field: str) -> list[Any]:
    return obj.get(field) or []


def _fill_scalable(resource: Resource, spec: Object) -> None:
    if resource == DEPLOYMENT:
        _default(spec, _DEPLOYMENT)
        if spec["strategy"].setdefault("type", "RollingUpdate") == "RollingUpdate":
            _default(spec["strategy"], {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
    else:
        _default(spec, _STATEFULSET)
        if spec["updateStrategy"].setdefault("type", "RollingUpdate") == "RollingUpdate":
            _default(spec["updateStrategy"], {"rollingUpdate": {"partition": 0}})
        _default(spec["persistentVolumeClaimRetentionPolicy"], _STATEFULSET["persistentVolumeClaimRetentionPolicy"])
    _fill_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _fill_pod(spec: Object) -> None:
    _default(spec, {"serviceAccountName": "default", "enableServiceLinks": True})
    _fill_pod_spec(spec)


def _fill_pod_spec(spec: Object) -> None:
    _default(spec, _POD_SPEC)
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in (*_each(spec, "initContainers"), *_each(spec, "containers")):
        _fill_container(container)
    for volume in _each(spec, "volumes"):
        _fill_volume(volume)


def _fill_container(container: Object) -> None:
    _default(container, _CONTAINER)
    image = container.get("image", "")
    _name, _, tag = image.rpartition("/")[2].partition(":")
    floating = "@" not in image and tag in ("", "latest")
    _default(container, {"imagePullPolicy": "Always" if floating else "IfNotPresent"})
    for port in _each(container, "ports"):
        _default(port, {"protocol": "TCP"})
    for variable in _each(container, "env"):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            _default(reference, {"apiVersion": "v1"})
    for probe in (
        container[field] for field in ("livenessProbe", "readinessProbe", "startupProbe") if field in container
    ):
        _default(probe, _PROBE)
        if probe.get("httpGet"):
            _default(probe["httpGet"], {"path": "/", "scheme": "HTTP"})


def _fill_volume(volume: Object) -> None:
    for field in ("secret", "configMap"):
        if field in volume:
            _default(volume[field], {"defaultMode": 420})


def _fill_secret(obj: Object) -> None:
    _default(obj, {"type": "Opaque"})
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(value.encode()).decode() for name, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}
    for name, value in (obj.get("data") or {}).items():
        try:
            base64.b64decode(value or "", validate=True)
        except ValueError as error:
            raise bad_request(f"Secret in version v1 cannot be handled as a Secret: data {name}: {error}") from error


def _fill_endpointslice(obj: Object) -> None:
    for field in ("endpoints", "ports"):
        obj.setdefault(field, None)  # the API server stores null instead of an empty list here
    for port in _each(obj, "ports"):
        _default(port, {"name": "", "protocol": "TCP"})


def _fill_matched(matched: Object) -> None:
    """Fill in the defaults of *matched*, the part of an admission policy or of a binding that selects requests."""
    _default(matched, {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}})
    for rule in (*_each(matched, "resourceRules"), *_each(matched, "excludeResourceRules")):
        _default(rule, {"scope": "*"})
