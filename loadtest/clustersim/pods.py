"""Builds and reads Pods, for their controllers and for the kubelet."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from clustersim.objects import Object, Resource

HASH_LENGTH = 10
RULES_FILE = "TS_INGRESS_PROXIES_CONFIG_PATH"
"""The variable that names the file with a proxy's rules for Tailscale Services."""


def template_hash(template: Object) -> str:
    """Return a short stable hash of a Pod template."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]


def owner_reference(owner: Object, resource: Resource) -> Object:
    """Return the owner reference, with ``controller: true``, for a child of *owner*."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from_template(owner: Object, resource: Resource, metadata: Object, spec: Object) -> Object:
    """Return a Pod from *owner*'s template. The fields in *metadata* and *spec* replace those of the template.

    Only labels are merged.
    """
    template = owner["spec"]["template"]
    described = template.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**described.get("labels", {}), **metadata.get("labels", {})},
            "annotations": dict(described.get("annotations", {})),
            "ownerReferences": [owner_reference(owner, resource)],
        },
        "spec": {**template["spec"], **spec},
    }


def controlled_by(obj: Object, uid: str) -> bool:
    """Tell whether the object with *uid* controls *obj*."""
    return any(
        reference.get("controller") and reference["uid"] == uid
        for reference in obj["metadata"].get("ownerReferences", ())
    )


def is_deleting(obj: Object) -> bool:
    """Tell whether *obj* is being deleted, and waits for its finalizers or its grace period."""
    return "deletionTimestamp" in obj["metadata"]


def grace_seconds(pod: Object, asked: int | None, is_silent: bool) -> int:
    """Return the number of seconds for which a deleted Pod is allowed to run on.

    It is 0 for a Pod without a node. Otherwise it is *asked*, or if that is None, the grace period in the Pod's spec.
    The simulation makes an exception if *asked* is None: a Pod with neither a preStop hook nor Tailscale Services ends
    at once. But if its node *is_silent*, the Pod stays, because no kubelet ends it.
    """
    spec = pod["spec"]
    if not spec.get("nodeName"):
        return 0
    if asked is not None:
        return asked
    lasts = is_silent or any(_has_hook(each) or hosts_services(each) for each in spec.get("containers", ()))
    return int(spec.get("terminationGracePeriodSeconds", 30)) if lasts else 0


def hosts_services(container: Object) -> bool:
    """Tell whether a container can host Tailscale Services: it runs the proxy image and has a file of rules."""
    return any(variable["name"] == RULES_FILE for variable in container.get("env", ()))


def _has_hook(container: Object) -> bool:
    return bool((container.get("lifecycle") or {}).get("preStop"))


def is_ready(obj: Object) -> bool:
    """Tell whether the Ready condition of a Pod or Node is True."""
    conditions = obj.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def selects(selector: Mapping[str, str], pod: Object) -> bool:
    """Tell whether *selector* matches the Pod's labels."""
    labels = pod["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in selector.items())


def count(number: int) -> Any:
    """Return *number* for a field of a status; None if *number* is 0, because a status has no such field for 0."""
    return number or None
