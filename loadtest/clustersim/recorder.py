"""A simulation of Tailscale's tsrecorder image: it joins the tailnet, and keeps its login in its state Secret.

The image isn't open source. We know only the settings that the Go operator gives the image, and the state of the image
that the Go operator reads. The simulation is made to match both.
"""

from collections.abc import Mapping

from clustersim.containerboot import CREATING, ContainerState, environment
from clustersim.login import Login, texts
from clustersim.mounts import Volumes, mount_of, mounted
from clustersim.objects import SECRET, Object, Resource
from clustersim.proxyconfig import ConfigError
from clustersim.store import Store
from clustersim.tailnet import Device, Tailnets

AUTH_KEY_FILE = "TS_AUTHKEY_FILE"
STATE = "TS_STATE"
HOSTNAME = "TSRECORDER_HOSTNAME"
LOGIN_SERVER = "TSRECORDER_LOGIN_SERVER"
DESTINATION = "TSRECORDER_DST"
BUCKET = "TSRECORDER_BUCKET"
_KUBE = "kube:"


def recorder_container(pod: Object) -> Object | None:
    """Return the container of *pod* that runs tsrecorder, if there is one."""
    for container in pod["spec"].get("containers", ()):
        names = {variable["name"] for variable in container.get("env", ())}
        if {AUTH_KEY_FILE, STATE} <= names:
            found: Object = container
            return found
    return None


class Recorder:
    """One container of a Recorder, from its first boot to the end of its Pod."""

    def __init__(self, store: Store, tailnets: Tailnets, pod: Object, container: Object) -> None:
        self._store = store
        self._namespace: str = pod["metadata"]["namespace"]
        self.uid: str = pod["metadata"]["uid"]
        self._env = environment(pod, container)
        self._key_mount = mount_of(pod, container, self._env[AUTH_KEY_FILE])
        self._volumes = Volumes(store, self._namespace, mounted(pod))
        self._environment_from = [
            (SECRET, source["secretRef"]["name"]) for source in container.get("envFrom", ()) if "secretRef" in source
        ]
        self._state = (SECRET, self._env[STATE].removeprefix(_KUBE))
        server = self._env.get(LOGIN_SERVER, "")
        self._login = Login(store, self._namespace, self._state[1], tailnets.at(server), server)
        self._runs = False
        self._restarts = 0

    @property
    def device(self) -> Device | None:
        """The Recorder's device, or None before the Recorder has joined the tailnet."""
        return self._login.device

    @property
    def sources(self) -> list[tuple[Resource, str]]:
        """The kinds and names of the Secrets and ConfigMaps that the container reads."""
        return [*dict.fromkeys((self._state, *self._volumes.sources, *self._environment_from))]

    def is_outdated(self) -> bool:
        """Tell whether a change of the tailnet requires another `step` of the Recorder."""
        if self.device is not None:
            return self._login.tailnet.devices.get(self.device.node_id) != self.device
        waits = self._login.asks_for_key or self._env.get(HOSTNAME, "") in self._login.tailnet.silent
        return self._runs and not waits

    def sync(self) -> None:
        """Mount the present version of each Secret and ConfigMap, as when the kubelet syncs the Pod."""
        self._volumes.sync()

    def lose_connection(self, seconds: float) -> None:
        """Mark the Recorder's device as offline since *seconds* ago, unless the device was deleted."""
        if self.device is not None and self.device.node_id in self._login.tailnet.devices:
            self._login.tailnet.disconnect(self.device.node_id, seconds)

    draining = 10

    def withdraw(self) -> None:
        """Do nothing, because a Recorder hosts no Tailscale Services."""

    def end(self) -> None:
        """Do nothing: the Recorder's device stays connected until it is marked as offline."""

    def is_routed(self) -> bool:
        """Return False: a Recorder has no preStop hook that waits."""
        return False

    def health(self, port: int) -> tuple[int, Mapping[str, str]] | None:
        """Return None: a Recorder listens for health checks at no *port*."""
        return None

    def step(self) -> ContainerState:
        """Do the next things that the Secrets and the tailnet allow now, and return the state of the container."""
        try:
            return self._run()
        except ConfigError as error:
            return ContainerState(False, "CrashLoopBackOff", str(error), self._restarts)

    def _run(self) -> ContainerState:
        if not self._runs:
            if (waiting := self._missing()) is not None:
                return waiting
            self.sync()
            self._check()
            self._login.resume(self._auth_key, {})
            self._runs = True
        if self._store.find(SECRET, self._namespace, self._state[1]) is not None:
            self._stay_logged_in()
        return ContainerState(restarts=self._restarts)

    def _missing(self) -> ContainerState | None:
        """Return the state of the container if it can't start because a Secret, a ConfigMap or a key is missing.

        Otherwise, return None. A key can be missing because the kubelet mounts no volume with a key that its Secret
        lacks.
        """
        key = self._key_mount
        for reason, sources in (
            (CREATING, self._volumes.sources),
            ("CreateContainerConfigError", self._environment_from),
            ("CrashLoopBackOff", [self._state]),
        ):
            for kind, name in sources:
                if self._store.find(kind, self._namespace, name) is None:
                    return ContainerState(False, reason, f'{kind.singular} "{name}" not found', self._restarts)
        if key is not None and key.key not in texts(self._store.find(SECRET, self._namespace, key.source)):
            return ContainerState(False, CREATING, f"references non-existent secret key: {key.key}", self._restarts)
        return None

    def _check(self) -> None:
        """Check the environment variables as the program does when it starts. Raises ConfigError."""
        if self._key_mount is None:
            raise ConfigError(f"no Secret is mounted at {self._env[AUTH_KEY_FILE]}")
        if not self._env.get(HOSTNAME) or not self._env.get(DESTINATION):
            raise ConfigError(f"{HOSTNAME} and {DESTINATION} are required")
        if self._env[DESTINATION].startswith("s3://") and not self._env.get(BUCKET):
            raise ConfigError(f"{BUCKET} is required")

    @property
    def _auth_key(self) -> str:
        """The auth key in the mounted file, or "" without one."""
        mount = self._key_mount
        return texts(self._volumes.find(SECRET, mount.source)).get(mount.key, "").strip() if mount else ""

    def _stay_logged_in(self) -> None:
        if self._login.is_over(self._auth_key):
            self._restarts += 1
            self.sync()  # the kubelet syncs a Pod when a container of it ends
            self._login.resume(self._auth_key, {})
        if self.device is None:
            self._login.join(self._auth_key, self._env[HOSTNAME])
        if self.device is not None:
            self._login.device = self._login.tailnet.devices[self.device.node_id]
