"""What the nameserver's objects and its records have in common."""

from collections.abc import Sequence
from typing import Final

from tsoperator.api.names import (
    LABEL_APP_COMPONENT,
    LABEL_APP_NAME,
    NAMESERVER,
    PARENT_NAMESERVER,
)
from tsoperator.api.objects import Key, Object, is_deleting
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.desired.children import Owner
from tsoperator.settings import Settings

ANNOTATION_LEFT_OUT: Final = "tailscale.com/records-left-out"
"""On the ConfigMap of records: the number of names that it has no room for; absent if all names fit."""

_UPSTREAM_IMAGE: Final = "k8s-nameserver"


def elected(dnsconfigs: Sequence[Object]) -> Object | None:
    """Return the DNSConfig that counts: the oldest that isn't being deleted, so a second one takes nothing away."""
    staying = [obj for obj in dnsconfigs if not is_deleting(obj)]
    ranked = sorted(staying, key=lambda obj: (obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]))
    return ranked[0] if ranked else None


def nameserver_labels(dnsconfig: str, namespace: str) -> dict[str, str]:
    """Return the labels of the children of a DNSConfig; *namespace* is theirs, because a DNSConfig has none."""
    owner = Owner(PARENT_NAMESERVER, Key(namespace, dnsconfig))
    return {**owner.labels, LABEL_APP_NAME: "tailscale", LABEL_APP_COMPONENT: NAMESERVER}


def nameserver_image(dnsconfig: DNSConfig, settings: Settings) -> str:
    """Return the image of the nameserver: its repository and its tag each fall back to the operator's default.

    A default that names a digest has no tag to fall back to.
    """
    image = dnsconfig.spec.nameserver.image
    if not (image.repo or image.tag):
        return settings.nameserver_image
    default, _, _ = settings.nameserver_image.partition("@")
    repo, colon, tag = default.rpartition(":")
    if not colon or "/" in tag:
        repo, tag = default, "latest"
    return f"{image.repo or repo}:{image.tag or tag}"


def is_upstream(image: str) -> bool:
    """Tell whether *image* is the Go operator's nameserver, which reads one ConfigMap and is not probed."""
    return image.rpartition("/")[2].partition(":")[0].partition("@")[0] == _UPSTREAM_IMAGE


def reads_shards(deployment: Object | None) -> bool:
    """Tell whether every Pod of the nameserver reads shards: *deployment* has our image, and is rolled out."""
    if deployment is None:
        return False
    spec, status = deployment["spec"], deployment.get("status") or {}
    if any(is_upstream(container["image"]) for container in spec["template"]["spec"]["containers"]):
        return False
    seen = status.get("observedGeneration") == deployment["metadata"].get("generation")
    counts = {status.get(name) or 0 for name in ("replicas", "updatedReplicas", "availableReplicas")}
    return seen and counts == {spec.get("replicas", 1)}
