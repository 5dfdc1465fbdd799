"""A simulation of Tailscale's proxy image: it boots from its Secret, joins the tailnet and reports its state.

No function of this module waits. ``Proxy.step`` does only what the Secrets and the tailnet allow at the time. The
kubelet calls `Proxy.step` again whenever a Secret or the tailnet has changed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from clustersim.certificates import ACCOUNT, ACCOUNTS, SHARED_ACCOUNTS_SINCE, SHARES, Certificates, domains_in
from clustersim.egress import CONFIG_DIR as EGRESS_DIR
from clustersim.egress import SERVICES as EGRESS_SERVICES
from clustersim.egress import Egress, Health
from clustersim.ingress import RULES, Ingress, document, hosted
from clustersim.login import Login, texts
from clustersim.mounts import Mount, Volumes, mount_of, mounted
from clustersim.objects import SECRET, Object, Resource
from clustersim.pods import RULES_FILE
from clustersim.proxyconfig import CAPABILITY_VERSION, ConfigError, ProxyConfig, check_listening, newest_file, parse
from clustersim.store import Store
from clustersim.tailnet import Device, Tailnet, Tailnets

CONFIG_DIR = "TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR"
STATE_SECRET = "TS_KUBE_SECRET"  # noqa: S105  the name of a variable, not a secret
SERVE_CONFIG = "TS_SERVE_CONFIG"
LISTENING = ("TS_DEBUG_ADDR_PORT", "TS_LOCAL_ADDR_PORT")
TARGET_FQDN = "TS_TAILNET_TARGET_FQDN"
CREATING = "ContainerCreating"
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a container. *waits* is the reason why the container doesn't run, or "" while it runs."""

    ready: bool = True
    waits: str = ""
    message: str = ""
    restarts: int = 0


def proxy_container(pod: Object) -> Object | None:
    """Return the container of *pod* that runs the proxy image with a configuration file; None without one."""
    for container in pod["spec"].get("containers", ()):
        names = {variable["name"] for variable in container.get("env", ())}
        if {CONFIG_DIR, STATE_SECRET} <= names:
            found: Object = container
            return found
    return None


def environment(pod: Object, container: Object) -> dict[str, str]:
    """Return the container's environment.

    Variables can have the values of fields of *pod*. ``$(NAME)`` is expanded if a variable before it is called
    NAME.
    """
    fields = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"],
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "status.podIP": pod.get("status", {}).get("podIP", ""),
        "status.podIPs": ",".join(_addresses(pod)),
    }
    values: dict[str, str] = {}
    for variable in container.get("env", ()):
        path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        text = fields.get(path, "") if path else variable.get("value", "")
        values[variable["name"]] = _REFERENCE.sub(lambda match: values.get(match[1], match[0]), text)
    return values


class Proxy:
    """One proxy container, from its first boot to the end of its Pod."""

    def __init__(
        self,
        store: Store,
        tailnets: Tailnets,
        pod: Object,
        container: Object,
        capability_version: int = CAPABILITY_VERSION,
    ) -> None:
        self._store = store
        self._capability_version = capability_version
        self._tailnets = tailnets
        self._namespace: str = pod["metadata"]["namespace"]
        self.uid: str = pod["metadata"]["uid"]
        env = environment(pod, container)
        self._login = Login(store, self._namespace, env[STATE_SECRET], tailnets.main)
        self._config_mount = mount_of(pod, container, env[CONFIG_DIR])
        self._serve_mount = mount_of(pod, container, env.get(SERVE_CONFIG, ""))
        self._volumes = Volumes(store, self._namespace, mounted(pod))
        self._sources = dict.fromkeys(((SECRET, env[STATE_SECRET]), *self._volumes.sources))
        addresses = {f"IPv{ip_address(address).version}": address for address in reversed(_addresses(pod))}
        self._health = Health(container, env, {f"Pod-{family}": address for family, address in addresses.items()})
        forwarding = mount_of(pod, container, env.get(EGRESS_DIR, ""))
        reported = {f"pod{family}": address for family, address in sorted(addresses.items())}
        self._egress = Egress(store, self._volumes, forwarding.source, reported) if forwarding else None
        rules = mount_of(pod, container, env.get(RULES_FILE, ""))
        self._ingress = Ingress(self._volumes, rules, reported) if rules else None
        self._certificates = self._writer(pod, env)
        self._serve_config = ""
        self._is_fresh = True
        self._ends = False
        self._tailnet_version = -1
        self._listens_at = [env[name] for name in LISTENING if name in env]
        self._target = env.get(TARGET_FQDN, "").rstrip(".").lower()
        self._is_lost = False
        self._ready_before_login = not self._target
        self._file = ""
        self._config = ProxyConfig()
        self._restarts = 0
        self._told: dict[str, str | None] = {}

    @property
    def device(self) -> Device | None:
        """The proxy's device, or None before the proxy has joined the tailnet."""
        return self._login.device

    @property
    def _tailnet(self) -> Tailnet:
        return self._login.tailnet

    @property
    def sources(self) -> list[tuple[Resource, str]]:
        """The kinds and names of the Secrets and ConfigMaps that the proxy reads."""
        return list(self._sources)

    def is_outdated(self) -> bool:
        """Tell whether a change of the tailnet requires another `step` of the proxy."""
        if self.device is not None:
            looks = self._egress is not None or self._ingress is not None or self._is_lost
            moved = looks and self._tailnet.version != self._tailnet_version
            return moved or self._tailnet.devices.get(self.device.node_id) != self.device
        waits = self._login.asks_for_key or self._config.hostname in self._tailnet.silent
        return bool(self._file) and not waits

    def sync(self) -> None:
        """Mount the present version of each Secret and ConfigMap, as the kubelet does when it syncs the Pod."""
        self._volumes.sync()

    def lose_connection(self, seconds: float) -> None:
        """Mark the proxy's device as offline since *seconds* ago, unless the device was deleted."""
        if self.device is not None and self.device.node_id in self._tailnet.devices:
            self._tailnet.disconnect(self.device.node_id, seconds)

    @property
    def draining(self) -> int:
        """The seconds from the moment when no Service leads to an ending Pod any more until its proxy stops."""
        return 10 if self._ingress is None else 20

    def withdraw(self) -> None:
        """Withdraw all Tailscale Services, as the image does at SIGTERM."""
        self._ends = True
        if self._ingress is not None and self.device is not None:
            self._tailnet.services.withdraw(self.device.node_id)
            self._login.keep(self._preferences(self.device))

    def end(self) -> None:
        """Disconnect the device of a Pod that is gone, but only if the proxy can host Tailscale Services.

        The devices of other proxies stay connected.
        """
        if self._ingress is not None and self.device is not None:
            self.withdraw()
            self._tailnet.set_connected(self.device.node_id, False)

    def is_routed(self) -> bool:
        """Tell whether the Pod's preStop hook has to wait: Services of the egress group still lead to the Pod."""
        return self._egress is not None and self._egress.is_routed()

    def health(self, port: int) -> tuple[int, Mapping[str, str]] | None:
        """Return the HTTP status and headers of the proxy's answer at *port*, or None if nothing listens there."""
        return self._health.answer(port, self.device is not None)

    def step(self) -> ContainerState:
        """Do the next things that the Secrets and the tailnet allow now, and return the state of the container."""
        try:
            return self._run()
        except ConfigError as error:
            return ContainerState(False, "CrashLoopBackOff", str(error), self._restarts)

    def _run(self) -> ContainerState:
        mount = self._config_mount
        for address in self._listens_at:
            check_listening(address)
        if mount is None:
            raise ConfigError("no Secret is mounted at the configuration folder")
        if not self._file:  # the kubelet tries again and again until a container runs
            self.sync()
        missing = [
            source for source in self._sources if self._store.find(source[0], self._namespace, source[1]) is None
        ]
        if missing and not self._file:
            kind, name = missing[0]
            return ContainerState(False, CREATING, f'{kind.singular} "{name}" not found', self._restarts)
        if not {(SECRET, mount.source), self.sources[0]} & {*missing}:
            self._reload(mount)
            self._stay_logged_in()
        return ContainerState(self._ready_before_login or self.device is not None, restarts=self._restarts)

    def _reload(self, mount: Mount) -> None:
        """Read the configuration file.

        An invalid file stops the boot. A proxy that already runs ignores the file, and keeps its old configuration.
        """
        data = texts(self._volumes.find(SECRET, mount.source))
        if self._file:
            try:
                self._config = parse(data.get(self._file, ""))
            except ConfigError:
                return
        else:
            file = newest_file(data, self._capability_version)
            self._config = parse(data[file])
            self._boot()
            self._file = file

    def _boot(self) -> None:
        """Reset the reported state, choose the tailnet, and look there for the device of the proxy's earlier run."""
        self._login.tailnet = self._tailnets.at(self._config.server_url)
        reports = dict.fromkeys(("https_endpoint", "egress-services", "ingress-config.json"))
        self._told.clear()
        self._serve_config, self._is_fresh = "", True
        version = str(self._capability_version)
        self._login.resume(self._config.auth_key, {**reports, "tailscale_capver": version, "pod_uid": self.uid})

    def _stay_logged_in(self) -> None:
        if self._login.is_over(self._config.auth_key):
            self._restart()
        elif self.device is None:
            self._login.join(self._config.auth_key, self._config.hostname)
        if self.device is not None:
            self._report(self.device)

    def _restart(self) -> None:
        """Start again as the Pod's next container.

        If the stored login is still valid, use it, and otherwise log in again.
        """
        self._restarts += 1
        self.sync()  # the kubelet syncs a Pod when a container of it ends
        self._boot()
        if self.device is None:
            self._login.join(self._config.auth_key, self._config.hostname)

    def _report(self, device: Device) -> None:
        """Apply changes of the configuration to the device, and report the device's ID, name and addresses."""
        if self._config.hostname:
            self._tailnet.set_hostname(device.node_id, self._config.hostname)
        device = self._tailnet.advertise(device.node_id, self._config.routes, self._config.app_connector)
        self._login.device = device
        self._login.keep(self._preferences(device))
        self._tell({"device_id": device.node_id})
        self._tailnet_version = self._tailnet.version
        self._is_lost = self._misses_target()
        if self._is_lost:
            return
        ips = json.dumps(device.addresses, separators=(",", ":"))
        self._tell({"device_fqdn": f"{device.name}.", "device_ips": ips})
        if self._ingress is None:
            self._tell(self._serve(device))
        else:
            self._host(device, self._ingress)
        if self._egress and (self._egress.is_configured() or EGRESS_SERVICES in self._told):
            self._tell({EGRESS_SERVICES: self._egress.report(self._tailnet)})

    def _host(self, device: Device, ingress: Ingress) -> None:
        """Report the Tailscale Services that the device hosts. If it is this replica's task, get their certificates.

        In its first step, a new container only advertises the Services. It reads its serve configuration and its rules
        in its second step.
        """
        report, advertised = self._tailnet.services.report, self._advertised
        if self._is_fresh:
            report(device.node_id, hosted(advertised, {}, {}))
            self._is_fresh = False
            self._tailnet_version = -1  # so that the next step comes soon
            return
        self._tell(self._serve(device))
        serve_config = document(SERVE_CONFIG, self._serve_config) if self._serve_config else {}
        report(device.node_id, hosted(advertised, serve_config, ingress.rules() or {}))
        if ingress.rules() is not None or RULES in self._told:
            self._tell({RULES: ingress.report()})
        if self._certificates is not None:
            listed = self._tailnet.services.names_of_host(device.node_id) if self._tailnet.https else []
            self._certificates.follow(domains_in(serve_config), listed)

    @property
    def _advertised(self) -> tuple[str, ...]:
        """The names of the Tailscale Services that the proxy advertises now."""
        return () if self._ends else self._config.services

    def _writer(self, pod: Object, env: Mapping[str, str]) -> Certificates | None:
        """Return the `Certificates` of a ProxyGroup if *pod* is the replica that writes them, and None otherwise."""
        if env.get(SHARES) != "true" or not pod["metadata"]["name"].endswith("-0"):
            return None
        account = pod["spec"].get("serviceAccountName", "default")
        knows_shared = self._capability_version >= SHARED_ACCOUNTS_SINCE
        shared = (env[ACCOUNTS], env[ACCOUNT]) if knows_shared and {ACCOUNTS, ACCOUNT} <= env.keys() else None
        return Certificates(self._store, self._namespace, account, shared)

    def _preferences(self, device: Device) -> Object:
        """Return the settings that tailscaled writes into a *device*'s login profile, such as routes and Services."""
        config = self._config
        relay = {"RelayServerPort": config.relay_port, "RelayServerStaticEndpoints": list(config.relay_endpoints)}
        return {
            "AdvertiseRoutes": list(device.advertised_routes) or None,
            "AppConnector": {"Advertise": device.app_connector},
            "AdvertiseServices": list(self._advertised) or None,
            **{name: value for name, value in relay.items() if value not in (None, [])},
        }

    def _misses_target(self) -> bool:
        """Tell whether the tailnet lacks the egress target of the proxy.

        If the target is missing, the image reports neither the name nor the addresses of its device.
        """
        missing = bool(self._target) and not self._tailnet.addresses(self._target)
        return missing and not self._tailnet.has_all_targets

    def _tell(self, values: dict[str, str | None]) -> None:
        """Write *values* into the state Secret, except for values that this container has reported already.

        So a value that somebody has removed from the Secret comes back only after the next start of the container.
        """
        news = {key: value for key, value in values.items() if self._told.get(key, "") != value}
        self._told |= news
        self._login.write(news)

    def _serve(self, device: Device) -> dict[str, str | None]:
        """Read the serve config, and return the values that the proxy has to write into its state Secret.

        They are the device's name for HTTPS, and a copy of the serve config. If the file is missing or empty, the
        proxy keeps the serve config that it read before. If it has never read one, return {}.
        """
        mounted_config = self._volumes.text(self._serve_mount) if self._serve_mount else None
        self._serve_config = mounted_config or self._serve_config
        if not self._serve_config:
            return {}
        endpoint = device.name if self._tailnet.https else "no-https"
        profile = self._login.profile
        return {"https_endpoint": endpoint, **({f"_serve_{profile}": self._serve_config} if profile else {})}


def _addresses(pod: Object) -> list[str]:
    return [entry["ip"] for entry in pod.get("status", {}).get("podIPs", ())]
