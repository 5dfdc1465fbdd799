"""The login of a simulated tailscaled: it joins a tailnet with an auth key, and keeps its login in a Secret."""

import json
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping

from clustersim.objects import SECRET, Object
from clustersim.proxyconfig import ConfigError
from clustersim.store import Store
from clustersim.tailnet import AuthKeyError, Device, Tailnet

_CURRENT = "_current-profile"
_LOGGED_IN = ("Config", "Hostname")
"""The fields of a login profile that don't change with the preferences of the device."""
_KEYS = ("reissue_authkey", "device_id", "device_fqdn", "device_ips", "_machinekey", _CURRENT, "_profiles")


class Login:
    """The login of one container in *tailnet*, with the state Secret *name*.

    *device* is None until the container has joined. A container that has joined can start again without an auth key, as
    long as the tailnet has the device and the device's node key has not expired.
    """

    def __init__(self, store: Store, namespace: str, name: str, tailnet: Tailnet, url: str = "") -> None:
        """Take the *url* of the control server if the login profile has to contain it, and "" otherwise."""
        self._store = store
        self._namespace = namespace
        self._name = name
        self._server = {"ControlURL": url} if url else {}
        self._rejected: str | None = None
        self.tailnet = tailnet
        self.device: Device | None = None

    @property
    def asks_for_key(self) -> bool:
        """Tell whether the tailnet has refused the auth key, so that the container waits for another key."""
        return self._rejected is not None

    def resume(self, auth_key: str, reports: Mapping[str, str | None]) -> None:
        """Begin a run of the container with *auth_key*, and look for the device of an earlier run.

        Write the *reports* of the new run into the state Secret. Raises ConfigError.
        """
        state = self.read()
        answered = {"reissue_authkey": None} if auth_key and state.get("reissue_authkey") != auth_key else {}
        self.write({**reports, **answered})
        self._rejected = None
        node_id = _node_id(state)
        if self.tailnet.member(node_id) is not None:
            self.tailnet.set_connected(node_id, True)
        self.device = self.tailnet.member(node_id)

    def is_over(self, auth_key: str) -> bool:
        """Tell whether the container must start again.

        It must if its device was deleted or has to log in again, or if its refused auth key was replaced.
        If the auth key was replaced, remove the login of the old device from the state Secret.
        """
        if self._rejected is None:
            return self.device is not None and self.tailnet.member(self.device.node_id) is None
        if auth_key in ("", self._rejected):
            return False
        self.write(dict.fromkeys((*_KEYS, self.read().get(_CURRENT, _CURRENT))))
        return True

    def join(self, auth_key: str, hostname: str) -> None:
        """Join the tailnet and store the login. If the tailnet refuses the key, ask the operator for another one.

        Do nothing if the container waits for another key, or if the tailnet ignores its hostname.
        """
        if self.asks_for_key or hostname in self.tailnet.silent:
            return
        try:
            device = self.tailnet.register(auth_key, hostname)
        except AuthKeyError:
            self._ask_for_key(auth_key)
            return
        profile = self.profile or secrets.token_hex(2)
        login = {"ID": profile, "Name": device.hostname, "Key": f"profile-{profile}", "NodeID": device.node_id}
        config = {
            "PrivateNodeKey": f"privkey:{secrets.token_hex(32)}",
            "NodeID": device.node_id,
            "UserProfile": {"LoginName": "tagged-devices" if self.tailnet.headscale else device.name},
        }
        self.write(
            {
                "_machinekey": f"privkey:{secrets.token_hex(32)}",
                f"profile-{profile}": json.dumps(
                    self._server | dict(zip(_LOGGED_IN, (config, device.hostname), strict=True))
                ),
                "_profiles": json.dumps({profile: login}),
                _CURRENT: f"profile-{profile}",
            }
        )
        self.device = device

    def keep(self, preferences: Object) -> None:
        """Replace the settings in the device's login profile by *preferences*."""
        key = self.read().get(_CURRENT, "")
        profile = json.loads(self.read().get(key, "null"))
        if profile is not None:
            self.write({key: json.dumps({name: profile.get(name) for name in _LOGGED_IN} | preferences)})

    @property
    def profile(self) -> str:
        """The ID of the login profile, or "" without a login."""
        return self.read().get(_CURRENT, "").removeprefix("profile-")

    def read(self) -> dict[str, str]:
        """Return the decoded data of the state Secret, or {} if there is no such Secret."""
        return texts(self._store.find(SECRET, self._namespace, self._name))

    def write(self, values: Mapping[str, str | None]) -> None:
        """Set keys of the state Secret, and remove those with the value None. Write nothing if nothing changes."""
        if self._store.find(SECRET, self._namespace, self._name) is None:
            return
        state = self.read()
        if all(state.get(key) == value for key, value in values.items()):
            return
        data = {key: None if value is None else b64encode(value.encode()).decode() for key, value in values.items()}
        self._store.merge(SECRET, self._namespace, self._name, {"data": data})

    def _ask_for_key(self, rejected: str) -> None:
        """Disconnect from the control server, and ask the operator for another auth key than *rejected*."""
        self.tailnet.set_connected(_node_id(self.read()), False)
        self.device = None
        self._rejected = rejected
        self.write({"reissue_authkey": rejected or "no-authkey"})


def texts(secret: Object | None) -> dict[str, str]:
    """Return the decoded data of a Secret, or {} if it doesn't exist."""
    return decoded((secret or {}).get("data") or {})


def decoded(data: Mapping[str, str]) -> dict[str, str]:
    """Return the texts in *data*, which is a section of an object with values in base64."""
    return {key: b64decode(value).decode(errors="replace") for key, value in data.items()}


def _node_id(state: dict[str, str]) -> str:
    """Return the node ID in the state of an earlier run, or "" if there is none. Raises ConfigError."""
    profile = state.get(state.get(_CURRENT, ""), "{}")
    try:
        node_id: str = json.loads(profile).get("Config", {}).get("NodeID", "")
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"unreadable state: {error}") from error
    return node_id
