"""The Secret of a proxy: our config files in it, and the state that the proxy writes into it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from tsoperator.api.names import (
    ACME_ACCOUNT_KEY,
    EGRESS_SERVICES,
    INGRESS_RULES,
    NO_HTTPS,
    PARENT_RECORDER,
    SECRET_CAPABILITY_VERSION,
    SECRET_DEVICE_FQDN,
    SECRET_DEVICE_ID,
    SECRET_DEVICE_IPS,
    SECRET_HTTPS_ENDPOINT,
    SECRET_POD_UID,
    SECRET_REISSUE,
    SERVE_CONFIG_KEY,
    SERVE_STATE_PREFIX,
)
from tsoperator.api.objects import SECRET, Object, key_of
from tsoperator.proxy.entries import ProxyReport, read_report
from tsoperator.proxy.hosting import HostReport, read_host_report
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secretdata import (
    auth_key_in,
    certificates,
    config_version,
    device_in,
    file_names,
    fqdn_in,
    has_routes_to_lose,
    login_profile,
    newest_config,
    served_service,
    static_endpoints,
)
from tsoperator.proxy.stored import encoded, json_or_empty, list_of_texts, text, text_in, texts_in
from tsoperator.proxy.tailscaled import ProxyConfig, config_files
from tsoperator.proxy.x509 import Validity
from tsoperator.runtime.diff import digest_of
from tsoperator.runtime.ownership import owner_of
from tsoperator.runtime.plan import Patch

BY_DEVICE = "device"
"""The index of Secrets by the ID of the device that they report."""

TLS = "tls"
"""The text that stands for the domain in keys such as ``tls.crt``, in a Secret that has only one certificate."""

_DEVICE_KEYS = (
    SECRET_DEVICE_ID,
    SECRET_DEVICE_FQDN,
    SECRET_DEVICE_IPS,
    SECRET_POD_UID,
    SECRET_CAPABILITY_VERSION,
    SECRET_HTTPS_ENDPOINT,
)
_CONFIG_DIGEST = "configDigest"
_AUTH_KEY_DIGEST = "authKeyDigest"
_CONFIGS = "configs"
_SERVE_STATE = "serveState"
_STATE_DEVICE = "stateDevice"
_REFUSED_KEY_DIGEST = "refusedKeyDigest"
_CERTIFICATES = "certificates"
_ASKED_FOR_CERTIFICATE = "askedForCertificate"
_EGRESS_REPORT = "egressReport"
_HOST_REPORT = "hostReport"
_ADVERTISED = "advertisedServices"
_SERVED = "servedService"
_STATIC_ENDPOINTS = "staticEndpoints"
_LOGIN_URL = "loginUrl"
_ACCEPTS_ROUTES = "acceptsRoutes"
_STATE_FQDN = "stateFqdn"
_HOSTNAME = "hostname"
_HAS_ROUTES_TO_LOSE = "hasRoutesToLose"
_HTTPS_ENDPOINT_SINCE = 109  # the capability version from which proxies report https_endpoint


class Reissue(StrEnum):
    """The state of the request by which a proxy that can't log in asks for another auth key.

    docs/development/proxies.md describes the request.
    """

    NOT_ASKED = ""
    ASKED = "asked"
    ANSWERED = "answered"
    """The proxy's config has another auth key than the refused one, but the proxy hasn't used that key yet."""


@dataclass(frozen=True, slots=True)
class ReportedDevice:
    """The proxy's device in the tailnet, as the proxy reported it; a field that it hasn't reported is empty."""

    id: str
    fqdn: str
    https_name: str
    serves_no_https: bool
    ips: tuple[str, ...] = ()

    def status(self, hostname: str) -> Object:
        """Return the part of the parent's status that is about the device. *hostname* is the hostname to show there."""
        return {"hostname": hostname} | ({"tailnetIPs": [*self.ips]} if self.ips else {})


@dataclass(frozen=True, slots=True)
class Certificate:
    """The facts about a certificate, which tailscaled gets at the first HTTPS request that needs it.

    *validity* is None if the certificate can't be read. *asked* is true if the certificate is missing, and the proxy
    has certainly asked for it.
    """

    is_there: bool
    validity: Validity | None = None
    asked: bool = False


def slim(secret: Object) -> Object:
    """Return the slim form of a proxy's Secret for the cache.

    It has these facts:

    - the keys that describe the device; the URL at which the proxy logs in, and its hostname;
    - digests of the config, of the auth key in it, and of the refused auth key that the proxy asks to replace;
    - the names of the configs for images of different versions, and of the keys with tailscaled's stored serve config;
    - the validity of the certificates;
    - the static endpoints of a relay or of a proxy of a ProxyGroup;
    - of a proxy of a ProxyGroup: its report of the entries that it forwards, or of its rules; the Tailscale Services
      that it advertises; and the Tailscale Service by which it serves the Kubernetes API;
    - of a Connector: whether the proxy has routes that it has to lose before it can be an app connector.

    The Secret of a Recorder has only the state of its tailscaled, so the URL and the device's name come from there.
    """
    data: Mapping[str, str] = secret.get("data") or {}
    config, profile = newest_config(data), login_profile(data)
    auth_key, owner = auth_key_in(data, config), owner_of(secret)
    reports_by_state = owner is not None and owner.type == PARENT_RECORDER
    metadata = {name: value for name, value in secret["metadata"].items() if name != "managedFields"}
    return {
        "apiVersion": secret["apiVersion"],
        "kind": secret["kind"],
        "metadata": metadata,
        "data": {name: data[name] for name in _DEVICE_KEYS if name in data},
        _CONFIG_DIGEST: _digest_of_files({name: text(data, name) for name in file_names(data)}),
        _AUTH_KEY_DIGEST: digest_of(auth_key) if auth_key else "",
        _LOGIN_URL: text_in(profile, "ControlURL") if reports_by_state else text_in(config, "ServerURL"),
        _HOSTNAME: text_in(config, "Hostname"),
        _ACCEPTS_ROUTES: config.get("acceptRoutes") is True,
        _CONFIGS: [name for name in data if config_version(name) is not None],
        _SERVE_STATE: [name for name in data if name.startswith(SERVE_STATE_PREFIX)],
        _STATE_DEVICE: device_in(profile),
        _STATE_FQDN: fqdn_in(profile) if reports_by_state else "",
        _REFUSED_KEY_DIGEST: digest_of(text(data, SECRET_REISSUE)) if SECRET_REISSUE in data else "",
        _CERTIFICATES: certificates(data),
        _ASKED_FOR_CERTIFICATE: ACME_ACCOUNT_KEY in data,
        _HAS_ROUTES_TO_LOSE: has_routes_to_lose(config, profile),
        _STATIC_ENDPOINTS: static_endpoints(data),
        _EGRESS_REPORT: read_report(text(data, EGRESS_SERVICES)) if EGRESS_SERVICES in data else None,
        _HOST_REPORT: read_host_report(text(data, INGRESS_RULES)) if INGRESS_RULES in data else None,
        _ADVERTISED: texts_in(config or profile, "AdvertiseServices"),
        _SERVED: served_service(data, config),
    }


def auth_key_of(secret: Object) -> str:
    """Return the auth key in a whole Secret; empty if there is none.

    It is in the newest config or, for a Recorder, in a file of its own.
    """
    data: Mapping[str, str] = secret.get("data") or {}
    return auth_key_in(data, newest_config(data))


def login_url_of(secret: Object) -> str:
    """Return the URL of the control server at which the config in a *slim* Secret makes a proxy log in.

    The URL has no slash at its end. It is empty if there is no config.
    """
    url: str = secret[_LOGIN_URL]
    return url.removesuffix("/")


def expiries_of(secret: Object) -> dict[str, datetime]:
    """Return the times at which the certificates in a *slim* Secret expire, by their domains.

    A proxy whose name has changed still has the certificate of its old name. The result leaves that certificate out,
    because nobody renews it. In a Secret with a single certificate, the name of the Secret is the domain.
    """
    found: Mapping[str, Validity | None] = secret.get(_CERTIFICATES) or {}
    if not found:
        return {}
    domains = {TLS: key_of(secret).name, (own := fqdn_of(secret)): own}
    return {domains[name]: validity.ends for name, validity in found.items() if validity and name in domains}


def serve_state_of(secret: Object | None) -> Sequence[str]:
    """Return the keys of a *slim* Secret in which tailscaled has stored its serve config."""
    names: Sequence[str] = secret[_SERVE_STATE] if secret else ()
    return names


def hostname_of(secret: Object) -> str:
    """Return the hostname in the config in a *slim* Secret; empty if there is none."""
    name: str = secret[_HOSTNAME]
    return name


def needs_auth_key(secrets: ReplicaSecrets) -> bool:
    """Tell whether a replica needs an auth key to log in, and its Secrets have no auth key.

    If the Secrets have the state of an earlier login, the replica needs no auth key, even if somebody has removed the
    ID of its device from them.
    """
    has_key = secrets.config is not None and secrets.config[_AUTH_KEY_DIGEST]
    return not (has_key or device_id_of(secrets))


def has_other_config(old: Object, new: Object) -> bool:
    """Tell whether the configs in the *slim* Secrets *old* and *new* differ in a way that matters to the proxy.

    The mere removal of an auth key doesn't matter, because the proxy has used that key already.
    """
    return new[_CONFIG_DIGEST] != old[_CONFIG_DIGEST] or new[_AUTH_KEY_DIGEST] not in ("", old[_AUTH_KEY_DIGEST])


def must_keep_auth_key(secrets: ReplicaSecrets, config: ProxyConfig) -> bool:
    """Tell whether writing *config* would take away an auth key that the replica still needs to log in."""
    return (
        secrets.config is not None
        and bool(secrets.config[_AUTH_KEY_DIGEST])
        and not has_logged_in(secrets)
        and secrets.config[_CONFIG_DIGEST] != _digest_of_files(config_files(config))
    )


def config_for_now(config: ProxyConfig, secrets: ReplicaSecrets) -> ProxyConfig:
    """Return the config that a replica with these *secrets* should have now, as a step towards *config*.

    An app connector without routes of its own must have no list of routes in its config: an empty list would clear the
    routes that tailscaled has learned or has from the policy. But without a list, tailscaled also keeps the routes of
    earlier configs. So until those routes are gone, the replica gets an empty list. During that time it isn't an app
    connector, so that it learns no other routes.
    """
    if not config.app_connector or config.routes:
        return config
    if secrets.config is not None and secrets.config[_HAS_ROUTES_TO_LOSE]:
        return replace(config, routes=(), app_connector=False)
    return replace(config, routes=None)


def reissue_of(secrets: ReplicaSecrets) -> Reissue:
    """Return the state of a replica's request for another auth key: not asked, asked or answered."""
    refused = secrets.state[_REFUSED_KEY_DIGEST] if secrets.state is not None else ""
    if not refused:
        return Reissue.NOT_ASKED
    given = secrets.config[_AUTH_KEY_DIGEST] if secrets.config is not None else ""
    return Reissue.ANSWERED if given not in ("", refused) else Reissue.ASKED


def device_id_of(secrets: ReplicaSecrets) -> str:
    """Return the ID of the device that a replica has; empty if we don't know any device of the replica."""
    return reported_id_of(secrets.state) if secrets.state is not None else ""


def reported_id_of(secret: Object) -> str:
    """Return the ID of the device that a *slim* Secret reports; empty if it reports none.

    If a proxy was stopped between its login and its first report, only the state of its tailscaled has the ID.
    """
    return text(secret["data"], SECRET_DEVICE_ID) or str(secret[_STATE_DEVICE])


def device_of(secret: Object, pod: Object | None) -> ReportedDevice:
    """Return the device that a *slim* Secret reports.

    If *pod* has written the capability version in the Secret, and that version is new enough, the HTTPS endpoint of the
    device is the one in the Secret. Otherwise it is the MagicDNS name.
    """
    data = secret["data"]
    id_, fqdn = reported_id_of(secret), fqdn_of(secret)
    ips = list_of_texts(text(data, SECRET_DEVICE_IPS))
    version = capability_version_of(secret)
    reported = reporting_pod_of(secret)
    current = bool(pod and reported and reported == pod["metadata"]["uid"].lower())
    if not (current and version is not None and version >= _HTTPS_ENDPOINT_SINCE):
        return ReportedDevice(id_, fqdn, fqdn, False, ips)
    endpoint = text(data, SECRET_HTTPS_ENDPOINT).removesuffix(".")
    no_https = endpoint.lower() == NO_HTTPS
    return ReportedDevice(id_, fqdn, "" if no_https else endpoint, no_https, ips)


def fqdn_of(secret: Object) -> str:
    """Return the MagicDNS name of the device that a *slim* Secret reports; empty if it isn't known."""
    return text(secret["data"], SECRET_DEVICE_FQDN).removesuffix(".") or str(secret[_STATE_FQDN])


def capability_version_of(secret: Object) -> int | None:
    """Return the capability version of the image that a *slim* Secret reports; None if it isn't known.

    It is the version of the image that ran most recently.
    """
    version = text(secret["data"], SECRET_CAPABILITY_VERSION)
    return int(version) if version.isdecimal() else None


def shown_device(secret: Object) -> tuple[str, str] | None:
    """Return the name and the addresses of the device that a *slim* Secret reports; None unless it has both."""
    data = secret["data"]
    return _shown(data.get(SECRET_DEVICE_FQDN, ""), data.get(SECRET_DEVICE_IPS, ""))


@lru_cache(maxsize=4096)  # each reconcile of a proxy asks, and the answer rarely changes
def _shown(fqdn: str, ips: str) -> tuple[str, str] | None:
    data = {SECRET_DEVICE_FQDN: fqdn, SECRET_DEVICE_IPS: ips}
    name = text(data, SECRET_DEVICE_FQDN).removesuffix(".")
    addresses = ", ".join(list_of_texts(text(data, SECRET_DEVICE_IPS)))
    return (name, addresses) if name and addresses else None


def reporting_pod_of(secret: Object) -> str:
    """Return the UID of the Pod that wrote most recently into a *slim* Secret, in lower case; empty if no Pod did."""
    return text(secret["data"], SECRET_POD_UID).lower()


def egress_report_of(secret: Object) -> ProxyReport | None:
    """Return the report of a proxy of an egress group in its *slim* state Secret; None if there is no report."""
    report: ProxyReport | None = secret[_EGRESS_REPORT]
    return report


def host_report_of(secret: Object) -> HostReport | None:
    """Return the report of a proxy of an ingress group in its *slim* state Secret; None if there is no report."""
    report: HostReport | None = secret[_HOST_REPORT]
    return report


def advertised_services(secret: Object) -> tuple[str, ...]:
    """Return the names of the Tailscale Services in a *slim* Secret.

    In a config Secret they are those that a proxy should advertise, in a state Secret those that it does advertise.
    """
    found: tuple[str, ...] = secret[_ADVERTISED]
    return found


def served_service_of(secret: Object) -> str:
    """Return the name of the Tailscale Service by which a proxy should serve the Kubernetes API; empty if none is set.

    *secret* is the proxy's *slim* config Secret.
    """
    return secret[_SERVED] or ""


def is_mounted(secret: Object) -> bool:
    """Tell whether the Pods of a proxy mount its *slim* Secret.

    The Pods of a proxy of the Kubernetes API don't, because they read their config through the API.
    """
    return secret[_SERVED] is None


def lacks_api_config(config: Object) -> bool:
    """Tell whether somebody has removed the config from the *slim* config Secret of a proxy of the Kubernetes API."""
    return config[_SERVED] is None


def static_endpoints_of(config: Object | None) -> tuple[str, ...]:
    """Return the static endpoints in a *slim* config Secret, in their order; empty without a Secret."""
    found: tuple[str, ...] = config[_STATIC_ENDPOINTS] if config else ()
    return found


def accepts_routes_of(config: Object) -> bool:
    """Tell whether the config in a *slim* Secret lets the proxy accept the routes of other devices."""
    return bool(config[_ACCEPTS_ROUTES])


def by_device(secret: Object) -> Iterable[str]:
    """Return the values for the index `BY_DEVICE`: the ID of the device that a *slim* Secret reports, or nothing."""
    device = reported_id_of(secret)
    return (device,) if device else ()


def certificate_of(secret: Object, domain: str) -> Certificate:
    """Return the facts about the certificate for *domain* in a *slim* Secret."""
    found: Mapping[str, Validity | None] = secret[_CERTIFICATES]
    # The ACME account shows that the proxy has asked for a certificate. If it has none at all, it asked for this one.
    return Certificate(domain in found, found.get(domain), not found and secret[_ASKED_FOR_CERTIFICATE])


def config_patch(secrets: ReplicaSecrets, config: ProxyConfig, auth_key: str) -> Patch | None:
    """Return the patch that brings the config of a replica up to date.

    Return None if the config is up to date, or if the replica has no Secret yet. *auth_key* is the auth key with which
    the replica should log in. If the replica has a device, the patch removes the auth key from the Secret, unless the
    proxy has lost that device and asks for another auth key. The patch removes a config that another operator wrote for
    newer images, because those images would read it in place of ours. If the proxy should no longer serve anything, the
    patch also removes the serve config that tailscaled stored, because tailscaled would serve it again after a restart.
    """
    secret = secrets.config
    if secret is None:
        return None
    files = config_files(config)
    changes = secret[_CONFIG_DIGEST] != _digest_of_files(files)  # true if more than the auth key differs
    logged_in = has_logged_in(secrets)
    drop = logged_in and secret[_AUTH_KEY_DIGEST]
    served = secret[_SERVE_STATE] if config.serve_config is None else []
    if not (changes or drop or auth_key):
        return Patch(SECRET, key_of(secret), {"data": dict.fromkeys(served)}) if served else None
    written: dict[str, str | None] = {**encoded(config_files(config, "" if logged_in else auth_key))}
    written |= dict.fromkeys([*(name for name in secret[_CONFIGS] if name not in files), *served])
    if config.serve_config is None:
        written[SERVE_CONFIG_KEY] = None
    return Patch(SECRET, key_of(secret), {"data": written}, "the configuration of the proxy" if changes else "")


def has_logged_in(secrets: ReplicaSecrets) -> bool:
    """Tell whether the replica has reported a device, and doesn't ask for another auth key."""
    state = secrets.state
    return state is not None and bool(text(state["data"], SECRET_DEVICE_ID)) and not state[_REFUSED_KEY_DIGEST]


def _digest_of_files(files: Mapping[str, str]) -> str:
    """Return a digest of config *files* by their names and contents.

    The digest leaves out the auth key, so that another auth key doesn't change it.
    """
    return digest_of({name: {**json_or_empty(text), "AuthKey": ""} for name, text in files.items()})
