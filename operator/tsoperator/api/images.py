"""The rule for image references, as container runtimes read them (the distribution project's grammar)."""

import json
import re
from typing import Final

_REPOSITORY_MAX: Final = 255
_DEFAULT_DOMAIN: Final = "docker.io"
_LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = re.compile(rf"({_LABEL}(\.{_LABEL})*|\[[a-fA-F0-9:]+\])(:[0-9]+)?")
_COMPONENT = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_COMPONENT}(/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_ID = re.compile(r"[a-f0-9]{64}")


def image_error(image: str) -> str | None:
    """Say why *image* is no reference to an image; None if it is one."""
    name, at, digest = image.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, colon, tag = name, "", ""
    domain, path = _split(repository)
    given = json.dumps(image, ensure_ascii=False)
    if path != path.lower():
        return f"{given}: only the registry and the tag of an image may have upper case letters"
    good = (
        _DOMAIN.fullmatch(domain)
        and _PATH.fullmatch(path)
        and len(f"{domain}/{path}") <= _REPOSITORY_MAX
        and (not colon or _TAG.fullmatch(tag))
        and (not at or _DIGEST.fullmatch(digest))
        and not _ID.fullmatch(image)
    )
    if good:
        return None
    return (
        f"{given}: this is not the name of an image: write one such as tailscale/tailscale:stable, "
        "registry.example.org:5000/tailscale or tailscale@sha256:<64 digits>"
    )


def _split(repository: str) -> tuple[str, str]:
    """Return the registry of *repository*, and the path of *repository* in this registry.

    The text before the first slash is a registry only if it looks like a host. Without one, the registry is docker.io.
    """
    first, slash, rest = repository.partition("/")
    if slash and (first == "localhost" or first != first.lower() or not {".", ":"}.isdisjoint(first)):
        return first, rest
    return _DEFAULT_DOMAIN, repository if slash else f"library/{repository}"


def image_name(image: str) -> str:
    """Return the last part of the repository of *image*, such as ``tailscale``, without registry, tag and digest."""
    last = image.partition("@")[0].rpartition("/")[2]
    return last.partition(":")[0]


def image_tag(image: str) -> str:
    """Return the tag of *image*, such as ``stable``; empty if it has none."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]
