"""The Events about the API server proxy, on the Deployment of the operator: each says what the user can do."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tsoperator.api.objects import Object, uid
from tsoperator.api.policy import CONSOLE, UNSUPPORTED
from tsoperator.proxy.advice import is_headscales
from tsoperator.proxy.certificate import News, ObservedCertificate, news
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.secret import ReportedDevice, capability_version_of, device_of, reporting_pod_of
from tsoperator.runtime.plan import Note, earliest
from tsoperator.settings import Settings

FAILED: Final = "APIServerProxyFailed"
"""The reason of the Event which says why the API server proxy can't be made, or doesn't join the tailnet."""

_SINCE: Final = 131
"""The capability version of Tailscale 1.92. From this version on, tailscaled names the caller in a PROXY header."""

_WITHOUT: Final = (
    'set apiServerProxyConfig.http of the chart to "true" (APISERVER_PROXY_HTTP), and run tailscale configure '
    "kubeconfig with --http"
)


class Told(NamedTuple):
    """The Events of a device as notes, and the number of seconds after which they have to be computed again."""

    notes: Sequence[Note] = ()
    requeue_after: float | None = None


def notices(
    state: Object | None,
    pods: Sequence[Object],
    findings: Sequence[DeviceFinding],
    certificate: ObservedCertificate | None,
    settings: Settings,
) -> Told:
    """Return the Events about the device of the proxy.

    The device has its *state* in a slim Secret, and runs in one of *pods*. *findings* come from the control server's
    facts about the device.
    """
    told = news(certificate) if certificate else News()
    notes = [
        *(Note("Normal" if each.effect is Effect.NEWS else "Warning", each.reason, each.message) for each in findings),
        *_image_notes(state, pods, settings),
        *_https_notes(reported_device(state, pods), settings),
        *told.notes,
    ]
    return Told(notes, earliest(told.requeue_after, *(each.requeue_after for each in findings)))


def reported_device(state: Object | None, pods: Sequence[Object]) -> ReportedDevice | None:
    """Return the device in the slim Secret *state*, as one of *pods* has reported it; None without that Secret.

    If the latest write into the Secret isn't by one of *pods*, the HTTPS name in the Secret doesn't count.
    """
    if state is None:
        return None
    return device_of(state, _reporter(state, pods))


def _reporter(state: Object, pods: Sequence[Object]) -> Object | None:
    """Return the one of *pods* that last wrote into the slim Secret *state*; None if none of them did."""
    return next((each for each in pods if uid(each).lower() == reporting_pod_of(state)), None)


def _image_notes(state: Object | None, pods: Sequence[Object], settings: Settings) -> Iterator[Note]:
    """Yield an Event if the image is too old: it forwards connections without a PROXY header that names the caller."""
    version = capability_version_of(state) if state and _reporter(state, pods) else None
    if version is not None and version < _SINCE:
        message = (
            f"the image {settings.proxy_image} is older than Tailscale 1.92, and doesn't say who calls, so the API "
            "server proxy refuses everybody: set proxyConfig.image of the chart (PROXY_IMAGE) to a newer one"
        )
        yield Note("Warning", "ProxyImageTooOld", message)


def _https_notes(device: ReportedDevice | None, settings: Settings) -> Iterator[Note]:
    """Yield an Event if the device has no certificate for HTTPS, and doesn't answer plain HTTP either."""
    if device is None or not device.serves_no_https or settings.apiserver_proxy_http:
        return
    if is_headscales(device):
        message = (
            "this control server gives devices no HTTPS certificates (it is Headscale), so nobody can reach the API "
            f"server proxy: {_WITHOUT}"
        )
        yield Note("Warning", UNSUPPORTED, message)
    else:
        message = (
            "HTTPS is not enabled on the tailnet, so nobody can reach the API server proxy: enable MagicDNS and HTTPS "
            f"certificates at {CONSOLE}/dns, which the proxy notices by itself, or {_WITHOUT}"
        )
        yield Note("Warning", "HTTPSNotEnabled", message)
