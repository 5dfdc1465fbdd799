"""The lines that the policy of a tailnet needs, and the names of the places where users write policies."""

import json
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

UNSUPPORTED: Final = "UnsupportedByControlServer"
"""The reason of a condition which says that the control server lacks a feature, so that waiting doesn't help."""


OPERATOR_TAG: Final = "tag:k8s-operator"
"""The tag that the OAuth client has unless somebody chose another."""


CONSOLE: Final = "https://login.tailscale.com/admin"


def is_tailscales(url: str) -> bool:
    """Tell whether the control server at *url* is Tailscale's own."""
    host = urlsplit(url).hostname or ""
    return host == "tailscale.com" or host.endswith(".tailscale.com")


def policy_place(url: str) -> str:
    """Return words for the place where users write the policy of the control server at *url*."""
    if is_tailscales(url):
        return f"the tailnet policy file ({CONSOLE}/acls/file)"
    return f"the policy of the control server ({url})" if url else "the tailnet policy file"


def clients_place(url: str) -> str:
    """Return words for the place where users make OAuth clients of the control server at *url*."""
    return f"{CONSOLE}/settings/trust-credentials" if is_tailscales(url) else "the control server"


def tag_owners(tags: Sequence[str], owners: Sequence[str] = ()) -> str:
    """Return the lines of a policy that let an OAuth client give *tags* to devices.

    *owners* are the tags of the client, which own *tags*. Without *owners*, the operator's default tag owns *tags*.
    """
    owning = [*owners] or [OPERATOR_TAG]
    lines: dict[str, list[str]] = {owner: [] for owner in owning}
    lines |= {tag: owning for tag in tags if tag not in owning}
    return f'"tagOwners": {json.dumps(lines)}'


def service_approvers(tags: Sequence[str], hosts: Sequence[str]) -> str:
    """Return the lines of a policy that let devices with the tags *hosts* host all Tailscale Services with *tags*."""
    services = {tag: [*hosts] for tag in tags}
    return f'"autoApprovers": {json.dumps({"services": services})}'


def funnel_attribute(tags: Sequence[str]) -> str:
    """Return the policy's line that lets devices with *tags* use Funnel."""
    return f'"nodeAttrs": {json.dumps([{"target": [*tags], "attr": ["funnel"]}])}'


def approval(name: str) -> str:
    """Return words that tell the user how to approve the device called *name*."""
    return (
        f"device {name} is not approved, so nothing reaches it: approve it at {CONSOLE}/machines, from the device's "
        "menu. Devices that join with the operator's auth keys are approved in advance: if new ones are not, see who "
        "or what takes the approval back"
    )
