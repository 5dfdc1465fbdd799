"""Advice about devices of proxies that lack something in the tailnet, such as Funnel or HTTPS certificates."""

from collections.abc import Sequence

from tsoperator.api.names import ANNOTATION_EXPOSE, ANNOTATION_FUNNEL, SERVE_CONFIG_KEY
from tsoperator.api.policy import CONSOLE, UNSUPPORTED, funnel_attribute
from tsoperator.proxy.secret import ReportedDevice
from tsoperator.runtime.plan import Creation, Note, Patch, Plan


def funnel_notes(made: Plan, tags: Sequence[str]) -> list[Note]:
    """Return the Events about Funnel if the plan *made* writes the serve config of a proxy with *tags*; else none.

    They advise the user to allow Funnel in the tailnet's policy. The operator can't find out whether the policy allows
    Funnel: tailscaled accepts such a config in any case, and the right to read the policy needs another OAuth scope.
    """
    if not _writes_serve_config(made):
        return []
    message = (
        "Funnel is reachable from the Internet only if the tailnet policy file allows it, which the operator can't "
        f"see: it needs {funnel_attribute(tags)}"
    )
    return [Note("Normal", "FunnelNeedsPolicy", message)]


def no_https(device: ReportedDevice, feature: str) -> Note:
    """Return the Event which says why *feature* can't work on *device*, which has no HTTPS, and what the cure is."""
    if not is_headscales(device):
        message = (
            f"HTTPS is not enabled on the tailnet, so {feature} can't work: enable MagicDNS and HTTPS "
            f"certificates at {CONSOLE}/dns; the proxy notices by itself"
        )
        return Note("Warning", "HTTPSNotEnabled", message)
    message = (
        f"{feature} is not supported by this control server: it needs HTTPS certificates for devices, which Headscale "
        f"does not give; to reach the Service from the tailnet without them, use its annotation {ANNOTATION_EXPOSE} "
        f"or a Service of type LoadBalancer, without {ANNOTATION_FUNNEL}"
    )
    return Note("Warning", UNSUPPORTED, message)


def is_headscales(device: ReportedDevice) -> bool:
    """Tell whether Headscale gave *device* its ID: IDs of Headscale are numbers, and IDs of Tailscale never are."""
    return device.id.isdecimal()


def _writes_serve_config(made: Plan) -> bool:
    written = [step.obj for step in made.steps if isinstance(step, Creation)]
    written += [step.body for step in made.steps if isinstance(step, Patch)]
    return any((body.get("data") or {}).get(SERVE_CONFIG_KEY) for body in written)
