"""The labels, annotations and rules that both the nameserver's objects and the ConfigMaps of records need."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tsoperator.api.images import image_name
from tsoperator.api.names import (
    ANNOTATION_NAMESERVER,
    LABEL_APP_COMPONENT,
    LABEL_APP_NAME,
    LABEL_MANAGED,
    MANAGED,
    NAMESERVER,
    PARENT_NAMESERVER,
)
from tsoperator.api.objects import Key, Object, annotations, by_age, is_deleting, labels
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.runtime.ownership import Owner
from tsoperator.settings import Settings

ANNOTATION_LEFT_OUT: Final = "tailscale.com/records-left-out"
"""The annotation on a ConfigMap of records with the number of names that it has no room for; absent if all fit."""

OWN_NAME: Final = "ts-dns"
"""The name of the DNSConfig that the operator makes by itself, if its settings say so."""

_UPSTREAM: Final = "tailscale/k8s-nameserver"
_UPSTREAM_REPOSITORIES: Final = {_UPSTREAM, f"docker.io/{_UPSTREAM}", f"ghcr.io/{_UPSTREAM}"}
_LATEST: Final = "latest"


class Program(StrEnum):
    """The program in an image of a nameserver; its value is that of the annotation `ANNOTATION_NAMESERVER`."""

    OURS = "tsnameserver"
    UPSTREAM = "k8s-nameserver"
    """The Go operator's nameserver, which reads one ConfigMap and answers no probes."""
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class NameserverImage:
    """The *reference* of a nameserver's image, and the *program* in the image if the operator knows it."""

    reference: str
    program: Program


_DEFAULT_TAGS: Final = {Program.OURS: _LATEST, Program.UPSTREAM: "stable"}


def elected(dnsconfigs: Sequence[Object]) -> Object | None:
    """Return the DNSConfig in force: the oldest one that isn't being deleted. Others have no effect."""
    return min((obj for obj in dnsconfigs if not is_deleting(obj)), key=by_age, default=None)


def is_operators(dnsconfig: Object) -> bool:
    """Tell whether the operator has made *dnsconfig* by itself: it has both the name `OWN_NAME` and our label."""
    return dnsconfig["metadata"]["name"] == OWN_NAME and labels(dnsconfig).get(LABEL_MANAGED) == MANAGED


def before(dnsconfigs: Iterable[Object], old: Object | None, new: Object | None) -> Sequence[Object]:
    """Return the DNSConfigs as they were before one of them changed from *old* to *new*.

    *dnsconfigs* are the DNSConfigs that exist after the change.
    """
    return [*(each for each in dnsconfigs if each is not new), *([old] if old else ())]


def nameserver_labels(dnsconfig: str, namespace: str) -> dict[str, str]:
    """Return the labels of the children of a DNSConfig; *namespace* is the namespace of the children."""
    owner = Owner(PARENT_NAMESERVER, Key(namespace, dnsconfig))
    return {**owner.labels, LABEL_APP_NAME: "tailscale", LABEL_APP_COMPONENT: NAMESERVER}


def parse(obj: Object) -> DNSConfig | Invalid:
    """Return *obj* parsed as a DNSConfig; Invalid if a field, or the annotation about its image, has a wrong value."""
    parsed, error = DNSConfig.parse(obj), _program_error(obj)
    return Invalid(error) if error and not isinstance(parsed, Invalid) else parsed


def _program_error(dnsconfig: Object) -> str:
    """Return the fault in the annotation that says which program an image has; empty if the annotation has no fault."""
    said = annotations(dnsconfig).get(ANNOTATION_NAMESERVER)
    if said is None or said in (Program.OURS, Program.UPSTREAM):
        return ""
    return (
        f"annotation {ANNOTATION_NAMESERVER} is {json.dumps(said, ensure_ascii=False)}: write {Program.OURS} if the "
        f"image is this operator's nameserver, {Program.UPSTREAM} if it is Tailscale's, or remove the annotation"
    )


def nameserver_image(obj: Object, dnsconfig: DNSConfig, settings: Settings) -> NameserverImage:
    """Return the image of the nameserver of the DNSConfig *obj*, parsed as *dnsconfig*.

    An annotation says which program the image has, because mirrors rename images. Without the annotation, we know only
    the programs of the operator's default image and of Tailscale's own repository. If a DNSConfig names only a
    repository or only a tag, the missing part is the default for that program. In the Go operator, a DNSConfig that
    names a repository or a tag always means Tailscale's program. Here it means the same, unless the annotation names
    our program.
    """
    asked = dnsconfig.spec.nameserver.image
    said = Program(annotations(obj).get(ANNOTATION_NAMESERVER, ""))
    default = default_image(settings)
    default_repo, default_tag = _split(default.reference)
    if not (asked.repo or asked.tag):
        return NameserverImage(default.reference, _program(default_repo, said or default.program))
    meant = said or Program.UPSTREAM
    has_default = default.program in (meant, Program.UNKNOWN)
    repo = asked.repo or (default_repo if has_default else _UPSTREAM)
    if repo == default_repo:
        return NameserverImage(f"{repo}:{asked.tag or default_tag}", _program(repo, said or default.program))
    tag = default_tag if has_default else _DEFAULT_TAGS[meant]
    return NameserverImage(f"{repo}:{asked.tag or tag}", _program(repo, said))


def _program(repo: str, likely: Program) -> Program:
    """Return Tailscale's program if the image repository *repo* is Tailscale's own; otherwise the program *likely*."""
    return Program.UPSTREAM if repo in _UPSTREAM_REPOSITORIES else likely


def default_image(settings: Settings) -> NameserverImage:
    """Return the image of a nameserver whose DNSConfig names no image.

    The image has our program, unless its name is that of Tailscale's image. An image with that name has Tailscale's
    program if it is in Tailscale's repository. In another repository, such as a mirror, we don't know its program.
    """
    image = settings.nameserver_image
    if _split(image)[0] in _UPSTREAM_REPOSITORIES:
        return NameserverImage(image, Program.UPSTREAM)
    return NameserverImage(image, Program.UNKNOWN if image_name(image) == Program.UPSTREAM else Program.OURS)


def _split(image: str) -> tuple[str, str]:
    """Return the repository and the tag of *image*.

    The tag is "latest" if *image* has no tag, even if it has a digest.
    """
    name = image.partition("@")[0]
    repo, colon, tag = name.rpartition(":")
    return (repo, tag) if colon and "/" not in tag else (name, _LATEST)


def reads_shards(deployment: Object | None, image: NameserverImage) -> bool:
    """Tell whether every Pod of the nameserver can read records in shards.

    That is so if *image* has our program, and all Pods of *deployment* run this image.
    """
    if deployment is None or image.program is not Program.OURS:
        return False
    spec, status = deployment["spec"], deployment.get("status") or {}
    if any(container["image"] != image.reference for container in spec["template"]["spec"]["containers"]):
        return False
    seen = status.get("observedGeneration") == deployment["metadata"].get("generation")
    counts = {status.get(name) or 0 for name in ("replicas", "updatedReplicas", "availableReplicas")}
    return seen and counts == {spec.get("replicas", 1)}
