"""Says what the user has to set up in a tailnet, with the exact lines for its policy file."""

import json
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from tsoperator.api.names import ANNOTATION_EXPOSE, ANNOTATION_FUNNEL, SERVE_CONFIG_KEY
from tsoperator.desired.plan import Creation, Note, Patch, Plan
from tsoperator.desired.secret import ReportedDevice

UNSUPPORTED: Final = "UnsupportedByControlServer"
"""The reason for a feature that this control server does not have, so that waiting doesn't help."""

OPERATOR_TAG: Final = "tag:k8s-operator"
"""The tag that the OAuth client has unless somebody chose another."""

_CONSOLE: Final = "https://login.tailscale.com/admin"


def is_tailscales(url: str) -> bool:
    """Tell whether the control server at *url* is Tailscale's own."""
    host = urlsplit(url).hostname or ""
    return host == "tailscale.com" or host.endswith(".tailscale.com")


def policy_place(url: str) -> str:
    """Return where the policy of the control server at *url* is written."""
    if is_tailscales(url):
        return f"the tailnet policy file ({_CONSOLE}/acls/file)"
    return f"the policy of the control server ({url})" if url else "the tailnet policy file"


def clients_place(url: str) -> str:
    """Return where OAuth clients of the control server at *url* are made."""
    return f"{_CONSOLE}/settings/trust-credentials" if is_tailscales(url) else "the control server"


def tag_owners(tags: Sequence[str], owners: Sequence[str] = ()) -> str:
    """Return the policy's lines that let an OAuth client, with the tags *owners*, give *tags* to devices."""
    owning = [*owners] or [OPERATOR_TAG]
    lines: dict[str, list[str]] = {owner: [] for owner in owning}
    lines |= {tag: owning for tag in tags if tag not in owning}
    return f'"tagOwners": {json.dumps(lines)}'


def funnel_attribute(tags: Sequence[str]) -> str:
    """Return the policy's line that lets devices with *tags* use Funnel."""
    return f'"nodeAttrs": {json.dumps([{"target": [*tags], "attr": ["funnel"]}])}'


def funnel_notes(made: Plan, tags: Sequence[str]) -> list[Note]:
    """Return the Events about Funnel, if *made* writes what a proxy with *tags* serves.

    The operator can't find out whether the policy allows Funnel: tailscaled accepts such a config in any case, and
    reading the policy needs another scope.
    """
    if not _writes_serve_config(made):
        return []
    message = (
        "Funnel is reachable from the Internet only if the tailnet policy file allows it, which the operator can't "
        f"see: it needs {funnel_attribute(tags)}"
    )
    return [Note("Normal", "FunnelNeedsPolicy", message)]


def no_https(device: ReportedDevice, feature: str) -> Note:
    """Return why *feature* doesn't work on a *device* that can't have a certificate, and what to do."""
    if not is_headscales(device):
        message = (
            f"HTTPS is not enabled on the tailnet, so {feature} can't work: enable MagicDNS and HTTPS "
            f"certificates at {_CONSOLE}/dns; the proxy notices by itself"
        )
        return Note("Warning", "HTTPSNotEnabled", message)
    message = (
        f"{feature} is not supported by this control server: it needs HTTPS certificates for devices, which Headscale "
        f"does not give; to reach the Service from the tailnet without them, use its annotation {ANNOTATION_EXPOSE} "
        f"or a Service of type LoadBalancer, without {ANNOTATION_FUNNEL}"
    )
    return Note("Warning", UNSUPPORTED, message)


def is_headscales(device: ReportedDevice) -> bool:
    """Tell whether Headscale gave *device* its ID: Headscale's IDs are numbers, Tailscale's never are."""
    return device.id.isdecimal()


def approval(name: str) -> str:
    """Return what to do about the device called *name*, which waits for approval."""
    return (
        f"device {name} is not approved, so nothing reaches it: approve it at {_CONSOLE}/machines, from the device's "
        "menu. Devices that join with the operator's auth keys are approved in advance: if new ones are not, see who "
        "or what takes the approval back"
    )


def _writes_serve_config(made: Plan) -> bool:
    written = [step.obj for step in made.steps if isinstance(step, Creation)]
    written += [step.body for step in made.steps if isinstance(step, Patch)]
    return any((body.get("data") or {}).get(SERVE_CONFIG_KEY) for body in written)
