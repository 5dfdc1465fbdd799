"""A simulation of Tailscale's k8s-proxy image: it offers the Kubernetes API as a Tailscale Service.

It reads its configuration from the API server, and so notices each change at once. It forwards no requests.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clustersim.certificates import Certificates, may
from clustersim.containerboot import ContainerState, environment
from clustersim.ingress import document, hosted
from clustersim.login import Login, texts
from clustersim.objects import SECRET, Object, Resource
from clustersim.proxyconfig import CAPABILITY_VERSION, ConfigError
from clustersim.store import Store
from clustersim.tailnet import Device, Tailnets

CONFIG = "TS_K8S_PROXY_CONFIG"
FILE = "config.hujson"
_KUBE = "kube:"
_MODES = ("auth", "noauth")


@dataclass(frozen=True, slots=True)
class APIConfig:
    """The settings that the simulated image acts on. A setting that the configuration lacks is empty."""

    state: str
    server_url: str = ""
    auth_key: str = ""
    hostname: str = ""
    advertised: tuple[str, ...] = ()
    service: str = ""
    issues: bool = False


def parse_api_config(text: str) -> APIConfig:
    """Read a configuration of k8s-proxy; raises ConfigError. Unknown fields are allowed."""
    config = document(FILE, text)
    if config.get("Version") != "v1alpha1":
        raise ConfigError(f'unsupported "version" value {config.get("Version")!r}; want "v1alpha1"')
    state, api = config.get("State") or "", config.get("APIServerProxy") or {}
    if not state.startswith(_KUBE):
        raise ConfigError(f"no Secret for the state: {state!r}")
    if (mode := api.get("Mode", "auth")) not in _MODES:
        raise ConfigError(f"unknown mode {mode!r}")
    return APIConfig(
        state.removeprefix(_KUBE),
        config.get("ServerURL") or "",
        config.get("AuthKey") or "",
        config.get("Hostname") or "",
        tuple(config.get("AdvertiseServices") or ()),
        (api.get("ServiceName") or "") if api.get("Enabled") else "",
        bool(api.get("IssueCerts")),
    )


def k8s_proxy_container(pod: Object) -> Object | None:
    """Return the container of *pod* that runs k8s-proxy, if there is one."""
    for container in pod["spec"].get("containers", ()):
        if any(variable["name"] == CONFIG for variable in container.get("env", ())):
            found: Object = container
            return found
    return None


class APIProxy:
    """One container with k8s-proxy, from its first boot to the end of its Pod."""

    def __init__(self, store: Store, tailnets: Tailnets, pod: Object, container: Object) -> None:
        self._store = store
        self._tailnets = tailnets
        self.uid: str = pod["metadata"]["uid"]
        self._namespace, _, self._secret = environment(pod, container)[CONFIG].removeprefix(_KUBE).partition("/")
        self._account: str = pod["spec"].get("serviceAccountName", "default")
        self._state = self._secret.removesuffix("-config")
        self._login = Login(store, self._namespace, self._state, tailnets.main)
        self._config: APIConfig | None = None
        self._certificates: Certificates | None = None
        self._tailnet_version = -1
        self._ends = False
        self._restarts = 0

    @property
    def device(self) -> Device | None:
        """The proxy's device, or None before the proxy has joined the tailnet."""
        return self._login.device

    @property
    def sources(self) -> list[tuple[Resource, str]]:
        """The kinds and names of the Secrets that the proxy reads."""
        return [(SECRET, self._state), (SECRET, self._secret)]

    def is_outdated(self) -> bool:
        """Tell whether a change of the tailnet requires another `step` of the proxy."""
        if self.device is not None:
            moved = self._login.tailnet.version != self._tailnet_version
            return moved or self._login.tailnet.devices.get(self.device.node_id) != self.device
        config = self._config
        return config is not None and not self._login.asks_for_key and not self._is_silent(config)

    def sync(self) -> None:
        """Do nothing, because the proxy mounts nothing."""

    def lose_connection(self, seconds: float) -> None:
        """Mark the proxy's device as offline since *seconds* ago, unless the device was deleted."""
        if self.device is not None and self.device.node_id in self._login.tailnet.devices:
            self._login.tailnet.disconnect(self.device.node_id, seconds)

    draining = 20

    def withdraw(self) -> None:
        """Withdraw all Tailscale Services, as the image does at SIGTERM."""
        self._ends = True
        if self.device is not None:
            self._login.tailnet.services.withdraw(self.device.node_id)
            self._login.keep(self._preferences())

    def end(self) -> None:
        """Disconnect from the control server."""
        if self.device is not None:
            self.withdraw()
            self._login.tailnet.set_connected(self.device.node_id, False)

    def is_routed(self) -> bool:
        """Return False: the Pod has no preStop hook that waits."""
        return False

    def health(self, port: int) -> tuple[int, Mapping[str, str]] | None:
        """Return the HTTP status and headers of the proxy's answer at *port*, or None if nothing listens there."""
        return ((200 if self.device else 503), {}) if port == 9002 and self._config else None

    def step(self) -> ContainerState:
        """Do the next things that the Secrets and the tailnet allow now, and return the state of the container."""
        try:
            return self._run()
        except ConfigError as error:
            return ContainerState(False, "CrashLoopBackOff", str(error), self._restarts)

    def _run(self) -> ContainerState:
        secret = self._store.find(SECRET, self._namespace, self._secret)
        if secret is None or self._store.find(SECRET, self._namespace, self._state) is None:
            if self._config is None:
                raise ConfigError(f'secrets "{self._secret}" not found')
            return ContainerState(restarts=self._restarts)
        permitted = may(self._store, self._namespace, self._account, "get", self._secret)
        if self._config is None and not permitted:  # a running proxy has an open watch, which needs no new permission
            raise ConfigError(f'secrets "{self._secret}" is forbidden')
        self._reload(texts(secret).get(FILE, ""))
        config = self._config
        if config is not None:
            self._stay_logged_in(config)
            if self.device is None and self._is_silent(config):
                raise ConfigError("error starting tailscale server: context deadline exceeded")
        return ContainerState(restarts=self._restarts)

    def _reload(self, text: str) -> None:
        """Read the configuration.

        An invalid configuration stops the boot. A proxy that already runs ignores an invalid configuration. A valid one
        replaces its configuration, but the choice whether to issue the certificate changes only at the next start.
        """
        if self._config is None:
            config = parse_api_config(text)
            self._config = config
            self._boot(config)
            return
        try:
            self._config = parse_api_config(text)
        except ConfigError:
            return

    def _boot(self, config: APIConfig) -> None:
        self._login.tailnet = self._tailnets.at(config.server_url)
        self._certificates = Certificates(self._store, self._namespace, self._account, None) if config.issues else None
        reports = {"tailscale_capver": str(CAPABILITY_VERSION), "pod_uid": self.uid}
        self._login.resume(config.auth_key, reports)

    def _stay_logged_in(self, config: APIConfig) -> None:
        if self._login.is_over(config.auth_key):
            self._restarts += 1
            self._boot(config)
        if self.device is None:
            self._login.join(config.auth_key, config.hostname)
        if self.device is not None:
            self._serve(self.device, config)

    def _serve(self, device: Device, config: APIConfig) -> None:
        """Report the device, serve the Kubernetes API, and get the certificate if this replica issues it."""
        tailnet = self._login.tailnet
        device = tailnet.set_hostname(device.node_id, config.hostname)
        self._login.device = device
        self._login.keep(self._preferences())
        ips = json.dumps(device.addresses, separators=(",", ":"))
        self._login.write({"device_id": device.node_id, "device_fqdn": f"{device.name}.", "device_ips": ips})
        domain = f"{config.service.removeprefix('svc:')}.{device.name.partition('.')[2]}"
        handler = {"TCPForward": "localhost:443", "TerminateTLS": domain, "ProxyProtocol": 2}
        served: dict[str, Any] = {config.service: {"TCP": {"443": handler}}} if config.service else {}
        tailnet.services.report(device.node_id, hosted(self._advertised, {"Services": served}, {}))
        self._tailnet_version = tailnet.version
        if self._certificates is not None:
            listed = tailnet.services.names_of_host(device.node_id) if tailnet.https else []
            self._certificates.follow([domain] if config.service else [], listed)

    def _is_silent(self, config: APIConfig) -> bool:
        return config.hostname in self._login.tailnet.silent

    @property
    def _advertised(self) -> tuple[str, ...]:
        """The names of the Tailscale Services that the proxy advertises now."""
        return () if self._ends or self._config is None else self._config.advertised

    def _preferences(self) -> Object:
        return {"AdvertiseServices": list(self._advertised) or None}
