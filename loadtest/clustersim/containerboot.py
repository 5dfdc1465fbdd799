"""A simulation of Tailscale's proxy image: it boots from its Secret, joins the tailnet and reports its state.

Nothing here waits. ``Proxy.step`` goes as far as the Secrets and the tailnet allow. The kubelet calls it again whenever
a Secret or the tailnet has changed.
"""

import json
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from clustersim.egress import CONFIG_DIR as EGRESS_DIR
from clustersim.egress import SERVICES as EGRESS_SERVICES
from clustersim.egress import Egress, Health
from clustersim.mounts import Mount, Volumes, mount_of, mounted
from clustersim.objects import SECRET, Object, Resource
from clustersim.proxyconfig import CAPABILITY_VERSION, ConfigError, ProxyConfig, check_listening, newest_file, parse
from clustersim.store import Store
from clustersim.tailnet import AuthKeyError, Device, Tailnet, Tailnets

CONFIG_DIR = "TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR"
STATE_SECRET = "TS_KUBE_SECRET"  # noqa: S105  the name of a variable, not a secret
SERVE_CONFIG = "TS_SERVE_CONFIG"
LISTENING = ("TS_DEBUG_ADDR_PORT", "TS_LOCAL_ADDR_PORT")
TARGET_FQDN = "TS_TAILNET_TARGET_FQDN"
CREATING = "ContainerCreating"
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_LOGIN_KEYS = (
    "reissue_authkey",
    "device_id",
    "device_fqdn",
    "device_ips",
    "_machinekey",
    "_current-profile",
    "_profiles",
)


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a container: running unless it *waits* for a reason, and *ready* or not."""

    ready: bool = True
    waits: str = ""
    message: str = ""
    restarts: int = 0


def proxy_container(pod: Object) -> Object | None:
    """Return the container of *pod* that runs the proxy image with a configuration file, if there is one."""
    for container in pod["spec"].get("containers", ()):
        names = {variable["name"] for variable in container.get("env", ())}
        if {CONFIG_DIR, STATE_SECRET} <= names:
            found: Object = container
            return found
    return None


def environment(pod: Object, container: Object) -> dict[str, str]:
    """Return the container's environment: with fields of *pod*, and with ``$(NAME)`` expanded if NAME comes earlier."""
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

    def __init__(self, store: Store, tailnets: Tailnets, pod: Object, container: Object) -> None:
        self._store = store
        self._tailnets = tailnets
        self._tailnet: Tailnet = tailnets.main
        self._namespace: str = pod["metadata"]["namespace"]
        self.uid: str = pod["metadata"]["uid"]
        env = environment(pod, container)
        self._state = env[STATE_SECRET]
        self._config_mount = mount_of(pod, container, env[CONFIG_DIR])
        self._serve_mount = mount_of(pod, container, env.get(SERVE_CONFIG, ""))
        self._volumes = Volumes(store, self._namespace, mounted(pod))
        self._sources = dict.fromkeys(((SECRET, self._state), *self._volumes.sources))
        addresses = {f"IPv{ip_address(address).version}": address for address in reversed(_addresses(pod))}
        self._health = Health(container, env, {f"Pod-{family}": address for family, address in addresses.items()})
        forwarding = mount_of(pod, container, env.get(EGRESS_DIR, ""))
        reported = {f"pod{family}": address for family, address in sorted(addresses.items())}
        self._egress = Egress(store, self._volumes, forwarding.source, reported) if forwarding else None
        self._tailnet_version = -1
        self._listens_at = [env[name] for name in LISTENING if name in env]
        self._target = env.get(TARGET_FQDN, "").rstrip(".").lower()
        self._is_lost = False
        self._ready_before_login = not self._target
        self._file = ""
        self._config = ProxyConfig()
        self._restarts = 0
        self._rejected: str | None = None
        self._told: dict[str, str | None] = {}
        self.device: Device | None = None

    @property
    def sources(self) -> list[tuple[Resource, str]]:
        """The kinds and names of the Secrets and ConfigMaps that the proxy reads."""
        return list(self._sources)

    def is_outdated(self) -> bool:
        """Tell whether the tailnet has changed so that the proxy has to take another `step`."""
        if self.device is not None:
            looks = self._egress is not None or self._is_lost
            moved = looks and self._tailnet.version != self._tailnet_version
            return moved or self._tailnet.devices.get(self.device.node_id) != self.device
        return bool(self._file) and self._rejected is None and self._config.hostname not in self._tailnet.silent

    def sync(self) -> None:
        """Mount the present version of each Secret and ConfigMap, as when the kubelet syncs the Pod."""
        self._volumes.sync()

    def lose_connection(self, seconds: float) -> None:
        """Mark the proxy's device as offline since *seconds* ago, unless the device was deleted."""
        if self.device is not None and self.device.node_id in self._tailnet.devices:
            self._tailnet.disconnect(self.device.node_id, seconds)

    def is_routed(self) -> bool:
        """Tell whether Services of the proxy's group still lead to it, so that its preStop hook goes on waiting."""
        return self._egress is not None and self._egress.is_routed()

    def health(self, port: int) -> tuple[int, Mapping[str, str]] | None:
        """Return the HTTP status and headers of the proxy's answer at *port*; None if nothing listens there."""
        return self._health.answer(port, self.device is not None)

    def step(self) -> ContainerState:
        """Go as far as the Secrets and the tailnet allow now, and return the state of the container."""
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
        if not {(SECRET, mount.source), (SECRET, self._state)} & {*missing}:
            self._reload(mount)
            self._stay_logged_in()
        return ContainerState(self._ready_before_login or self.device is not None, restarts=self._restarts)

    def _reload(self, mount: Mount) -> None:
        """Read the configuration file.

        An invalid file stops the boot. A proxy that already runs ignores it, and goes on with its old configuration.
        """
        data = _texts(self._volumes.find(SECRET, mount.source)) or {}
        if self._file:
            try:
                self._config = parse(data.get(self._file, ""))
            except ConfigError:
                return
        else:
            file = newest_file(data)
            self._config = parse(data[file])
            self._boot()
            self._file = file

    def _boot(self) -> None:
        """Reset the reported state, choose the tailnet, and look there for the proxy's device of an earlier run."""
        self._tailnet = self._tailnets.at(self._config.server_url)
        state = self._read(self._state) or {}
        patch = dict.fromkeys(("https_endpoint", "egress-services", "ingress-config.json"))
        patch |= {"tailscale_capver": str(CAPABILITY_VERSION), "pod_uid": self.uid}
        if self._config.auth_key and state.get("reissue_authkey") != self._config.auth_key:
            patch["reissue_authkey"] = None
        self._write(patch)
        self._rejected = None
        self._told.clear()
        node_id = _node_id(state)
        if self._tailnet.member(node_id) is not None:
            self._tailnet.set_connected(node_id, True)
        self.device = self._tailnet.member(node_id)

    def _stay_logged_in(self) -> None:
        if self._rejected is not None:
            self._await_other_key(self._rejected)
        elif self.device is None:
            self._log_in()
        elif self._tailnet.member(self.device.node_id) is None:
            self._restart()
        if self.device is not None:
            self._report(self.device)

    def _log_in(self) -> None:
        """Join the tailnet with the configured auth key, and store the login, with which a later run needs no key."""
        if self._config.hostname in self._tailnet.silent:
            return
        try:
            device = self._tailnet.register(self._config.auth_key, self._config.hostname)
        except AuthKeyError:
            self._ask_for_key()
            return
        current = (self._read(self._state) or {}).get("_current-profile", "")
        profile = current.removeprefix("profile-") or secrets.token_hex(2)
        login = {"ID": profile, "Name": device.hostname, "Key": f"profile-{profile}", "NodeID": device.node_id}
        config = {
            "PrivateNodeKey": f"privkey:{secrets.token_hex(32)}",
            "NodeID": device.node_id,
            "UserProfile": {"LoginName": "tagged-devices" if self._tailnet.headscale else device.name},
        }
        self._write(
            {
                "_machinekey": f"privkey:{secrets.token_hex(32)}",
                f"profile-{profile}": json.dumps({"Config": config, "Hostname": device.hostname}),
                "_profiles": json.dumps({profile: login}),
                "_current-profile": f"profile-{profile}",
                "device_id": device.node_id,
            }
        )
        self.device = device

    def _ask_for_key(self) -> None:
        """Disconnect from the control server, and ask the operator for another auth key than the configured one."""
        self._tailnet.set_connected(_node_id(self._read(self._state) or {}), False)
        self.device = None
        self._rejected = self._config.auth_key
        self._write({"reissue_authkey": self._rejected})

    def _await_other_key(self, rejected: str) -> None:
        """Once the configuration has another auth key, forget the old device and start again as a new container."""
        if self._config.auth_key in ("", rejected):
            return
        state = self._read(self._state) or {}
        self._write(dict.fromkeys((*_LOGIN_KEYS, state.get("_current-profile", "_current-profile"))))
        self._restart()

    def _restart(self) -> None:
        """Start again as the Pod's next container, with the stored login if it is still valid, else with a new one."""
        self._restarts += 1
        self.sync()  # the kubelet syncs a Pod when a container of it ends
        self._boot()
        if self.device is None:
            self._log_in()

    def _report(self, device: Device) -> None:
        """Apply changes of the configuration to the device, and report the device's ID, name and addresses."""
        if self._config.hostname:
            self._tailnet.set_hostname(device.node_id, self._config.hostname)
        device = self._tailnet.advertise(device.node_id, self._config.routes, self._config.app_connector)
        self.device = device
        self._keep_preferences(device)
        self._tell({"device_id": device.node_id})
        self._tailnet_version = self._tailnet.version
        self._is_lost = self._misses_target()
        if self._is_lost:
            return
        ips = json.dumps(device.addresses, separators=(",", ":"))
        self._tell({"device_fqdn": f"{device.name}.", "device_ips": ips, **self._serve(device)})
        if self._egress and (self._egress.is_configured() or EGRESS_SERVICES in self._told):
            self._tell({EGRESS_SERVICES: self._egress.report(self._tailnet)})

    def _keep_preferences(self, device: Device) -> None:
        """Write the routes and the app connector of the device into the login profile, as tailscaled does."""
        state = self._read(self._state) or {}
        key = state.get("_current-profile", "")
        profile = json.loads(state.get(key, "null"))
        offered = {
            "AdvertiseRoutes": list(device.advertised_routes) or None,
            "AppConnector": {"Advertise": device.app_connector},
        }
        if profile is not None:
            self._write({key: json.dumps({**profile, **offered})})

    def _misses_target(self) -> bool:
        """Tell whether the tailnet lacks the name that the proxy leads to: then the image reports no name."""
        missing = bool(self._target) and self._tailnet.named(self._target) is None
        return missing and not self._tailnet.has_all_targets

    def _tell(self, values: dict[str, str | None]) -> None:
        """Report the values that have changed since this proxy last reported them.

        A value that somebody else has removed from the Secret is reported again only after the next start.
        """
        news = {key: value for key, value in values.items() if self._told.get(key, "") != value}
        self._told |= news
        self._write(news)

    def _serve(self, device: Device) -> dict[str, str | None]:
        """Return the keys of the state Secret that come from the serve config: the endpoint, and a copy of the config.

        A later run goes on with the copy until it gets another serve config.
        """
        mount = self._serve_mount
        config = (_texts(self._volumes.find(SECRET, mount.source)) or {}).get(mount.key) if mount else None
        if not config:
            return {"https_endpoint": None}
        endpoint = device.name if self._tailnet.https else "no-https"
        profile = (self._read(self._state) or {}).get("_current-profile", "").removeprefix("profile-")
        return {"https_endpoint": endpoint, **({f"_serve_{profile}": config} if profile else {})}

    def _read(self, name: str) -> dict[str, str] | None:
        """Return the decoded data of a Secret, or None if there is no such Secret."""
        return _texts(self._store.find(SECRET, self._namespace, name))

    def _write(self, values: dict[str, str | None]) -> None:
        """Set keys of the state Secret, or remove those with the value None; write nothing if nothing changes."""
        state = self._read(self._state)
        if state is None or all(state.get(key) == value for key, value in values.items()):
            return
        data = {key: None if value is None else b64encode(value.encode()).decode() for key, value in values.items()}
        self._store.merge(SECRET, self._namespace, self._state, {"data": data})


def _texts(secret: Object | None) -> dict[str, str] | None:
    """Return the decoded data of a Secret, or None if there is none."""
    if secret is None:
        return None
    return {key: b64decode(value).decode(errors="replace") for key, value in (secret.get("data") or {}).items()}


def _addresses(pod: Object) -> list[str]:
    return [entry["ip"] for entry in pod.get("status", {}).get("podIPs", ())]


def _node_id(state: dict[str, str]) -> str:
    """Return the node ID that the state of an earlier run holds, empty if there is none; raises ConfigError."""
    profile = state.get(state.get("_current-profile", ""), "{}")
    try:
        node_id: str = json.loads(profile).get("Config", {}).get("NodeID", "")
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"unreadable state: {error}") from error
    return node_id
