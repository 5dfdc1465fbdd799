"""One tailnet at a control server: its devices, its auth keys and its OAuth client."""

import hashlib
import ipaddress
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType

from clustersim.tailnetservices import TailscaleServices

_IPV4 = ipaddress.IPv4Address("100.64.0.0")
_IPV6 = ipaddress.IPv6Address("fd7a:115c:a1e0::")
PARTNER_DOMAIN = "tail5678.ts.net"
"""The domain of the second tailnet."""
PARTNER_DEVICE = "vault"
"""The hostname of a device of the second tailnet."""
PARTNER_CLIENT = ("example-id", "example-secret")
"""The OAuth client of the second tailnet, as the Secret in docs/examples/tailnet.yaml has it."""
_KEY_SECONDS = 90 * 24 * 3600


class AuthKeyError(Exception):
    """The auth key of a device that wants to join is unknown, used up or expired."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device.

    *name* is its MagicDNS name without the last dot, and *node_id* is the device ID in tailscaled's words. *renamed*
    means that somebody has set the name, so that it no longer changes with the hostname. *last_seen* is in RFC 3339,
    and "" unless the device has disconnected. *user* is a login name, and "" if the device has tags.
    """

    id: str
    node_id: str
    name: str
    hostname: str
    addresses: tuple[str, ...]
    tags: tuple[str, ...]
    created: str
    key_id: str
    authorized: bool = True
    enabled_routes: tuple[str, ...] = ()
    advertised_routes: tuple[str, ...] = ()
    app_connector: bool = False
    renamed: bool = False
    connected: bool = True
    last_seen: str = ""
    expired: bool = False
    user: str = ""


@dataclass(frozen=True, slots=True)
class AuthKey:
    """An auth key.

    *key* is the secret. *created* and *expires* are seconds since the epoch. *user* is the login name of the user who
    made it, or "" for a key with tags.
    """

    id: str
    key: str
    tags: tuple[str, ...]
    reusable: bool
    ephemeral: bool
    preauthorized: bool
    description: str
    created: float
    expires: float
    used: bool = False
    user: str = ""


@dataclass(frozen=True, slots=True)
class NewKey:
    """The properties of a new auth key that a client asks for. If *seconds* is 0, the server chooses the lifetime."""

    tags: tuple[str, ...]
    reusable: bool = False
    ephemeral: bool = False
    preauthorized: bool = True
    description: str = ""
    seconds: float = 0
    user: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """An access token, with the end of its lifetime (in seconds since the epoch) and its scopes."""

    expires: float
    scopes: frozenset[str]


def timestamp(seconds: float) -> str:
    """Return *seconds* since the epoch in the format of RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Tailnet:
    """One tailnet. Every identifier comes from a counter that begins with *first*, so that a test can predict it.

    A test can change the attributes at any time. The policy defines *policy_tags*, and the OAuth client is allowed to
    give devices the *client_tags*; for both, ``None`` permits every tag. *own_tags* are the tags of the OAuth client
    itself. The next *dead_keys* auth keys are expired from the start. Devices with a hostname in *silent* get no answer
    when they try to join. While *has_all_targets* is true, a proxy can lead to any name; otherwise only to the names of
    existing devices and Tailscale Services. With workload identity, the server accepts *jwt* in place of the secret. If
    *audience* isn't empty, the server also accepts any token for this audience. *services* are the Tailscale Services;
    Headscale's API doesn't offer them.
    """

    def __init__(
        self,
        domain: str = "tail1234.ts.net",
        headscale: bool = False,
        clock: Callable[[], float] = time.time,
        first: int = 1,
    ) -> None:
        self.domain = domain
        self.headscale = headscale
        self.https = not headscale
        self.client_id = "kClientCNTRL"
        self.client_secret = f"{'hskey' if headscale else 'tskey'}-client-kClientCNTRL-secret"
        self.jwt = "e30.e30.c2lnbmF0dXJl"
        self.audience = ""
        self.scopes = {"devices:core", "auth_keys", "services"}
        self.policy_tags: set[str] | None = None
        self.client_tags: set[str] | None = None
        self.own_tags = ["tag:k8s-operator"]
        self.token_seconds: float = 3600
        self.dead_keys = 0
        self.silent: set[str] = set()
        self.has_all_targets = True
        self.version = 0
        """The number of changes of devices and Tailscale Services so far."""
        self._clock = clock
        self._count = {what: itertools.count(first) for what in ("device", "key", "token")}
        self._devices: dict[str, Device] = {}
        self._names: dict[str, str] = {}
        self._keys: dict[str, AuthKey] = {}
        self._secrets: dict[str, str] = {}
        self._tokens: dict[str, Token] = {}
        self.services = TailscaleServices(domain, self.devices, self._count_change, first)

    @property
    def devices(self) -> Mapping[str, Device]:
        """The present devices, by node ID."""
        return MappingProxyType(self._devices)

    @property
    def keys(self) -> Mapping[str, AuthKey]:
        """The present auth keys by ID, including used ones."""
        return MappingProxyType(self._keys)

    def register(self, auth_key: str, hostname: str) -> Device:
        """Add a device for a tailscaled that joins with *auth_key*, and return the device.

        If the name is taken, it gets the suffix -1, -2 and so on. Raises AuthKeyError.
        """
        key = self._usable_key(auth_key)
        number = next(self._count["device"])
        node_id = str(number) if self.headscale else f"n{number:06d}CNTRL"
        device = Device(
            id=str(number) if self.headscale else str(3_000_000_000_000_000 + number),
            node_id=node_id,
            name=self._free_name(hostname, node_id),
            hostname=hostname,
            addresses=(str(_IPV4 + number), str(_IPV6 + number)),
            tags=key.tags,
            created=timestamp(self._clock()),
            key_id=key.id,
            authorized=key.preauthorized,
            user=key.user,
        )
        self._keys[key.id] = replace(key, used=True)
        self.update(device)
        return device

    def add_user_device(self, hostname: str, address: str = "") -> Device:
        """Add a device of a user, which is no proxy. *address* is its IPv4 address, by default a free one."""
        key = self.create_key(NewKey((), user="alice@example.org"))
        device = self.register(key.key, hostname)
        if address:
            device = replace(device, addresses=(address, *device.addresses[1:]))
            self.update(device)
        return device

    def set_policy(self, tag_owners: Mapping[str, Sequence[str]]) -> None:
        """Put ``tagOwners`` of a policy into effect: they define *policy_tags* and *client_tags*."""
        self.policy_tags = set(tag_owners)
        owned = {tag for tag, owners in tag_owners.items() if {*owners} & {*self.own_tags}}
        self.client_tags = owned | {*self.own_tags}

    def set_hostname(self, node_id: str, hostname: str) -> Device:
        """Set the hostname of a device. Its name follows the hostname, unless somebody has renamed the device.

        Raises KeyError if the device was deleted.
        """
        device = self._devices[node_id]
        if device.hostname != hostname:
            name = device.name if device.renamed else self._free_name(hostname, node_id)
            device = replace(device, hostname=hostname, name=name)
            self.update(device)
        return device

    def rename_device(self, device: Device, label: str) -> None:
        """Rename *device* to *label* with the tailnet's suffix. If *label* is empty, make one from the hostname."""
        name = f"{label.lower()}.{self.domain}" if label else self._free_name(device.hostname, device.node_id)
        self.update(replace(device, name=name, renamed=bool(label)))

    def disconnect(self, node_id: str, seconds: float) -> None:
        """Mark the device as offline since *seconds* ago. Raises KeyError if it was deleted."""
        seen = timestamp(self._clock() - seconds)
        self.update(replace(self._devices[node_id], connected=False, last_seen=seen))

    def advertise(self, node_id: str, routes: tuple[str, ...] | None, app_connector: bool | None) -> Device:
        """Set the routes of a device, and whether it is an app connector. None keeps the old value.

        Raises KeyError if the device was deleted.
        """
        old = self._devices[node_id]
        new = replace(
            old,
            advertised_routes=old.advertised_routes if routes is None else routes,
            app_connector=old.app_connector if app_connector is None else app_connector,
        )
        if new != old:
            self.update(new)
        return new

    def set_connected(self, node_id: str, connected: bool) -> None:
        """Store whether a device is connected to the control server, if the device exists."""
        device = self._devices.get(node_id)
        if device is not None and device.connected is not connected:
            self.update(replace(device, connected=connected))

    def expire_device(self, device: Device) -> None:
        """Make the node key of *device* expire. The device stays in the tailnet, but has to log in again."""
        self.update(replace(self._devices[device.node_id], expired=True))

    def member(self, node_id: str) -> Device | None:
        """Return the device with *node_id*, or None if it was deleted or has to log in again."""
        device = self._devices.get(node_id)
        return None if device is None or device.expired else device

    def device(self, identifier: str) -> Device | None:
        """Return the device whose ID or node ID is *identifier*; None if there is none."""
        found = self._devices.get(identifier)
        return found or next((device for device in self._devices.values() if device.id == identifier), None)

    def named(self, name: str) -> Device | None:
        """Return the device with the MagicDNS name *name*; None if no device has it."""
        return self._devices.get(self._names.get(name, ""))

    def addresses(self, name: str) -> tuple[str, ...]:
        """Return the addresses of the device or Tailscale Service with the MagicDNS name *name*; () if none has it."""
        found = self.named(name) or self.services.at(name)
        return found.addresses if found else ()

    def update(self, device: Device) -> None:
        """Store *device*, in place of an older version of the device with the same node ID."""
        self.version += 1
        if device.node_id in self._devices:
            del self._names[self._devices[device.node_id].name]
        self._devices[device.node_id] = device
        self._names[device.name] = device.node_id
        self.services.follow(device.node_id)

    def delete_device(self, device: Device) -> None:
        """Delete *device*. Its name is free again."""
        self.version += 1
        del self._names[self._devices.pop(device.node_id).name]
        self.services.follow(device.node_id)

    def is_free(self, name: str, node_id: str) -> bool:
        """Tell whether the MagicDNS name *name* is free for the device *node_id*: nothing else has this name."""
        return self._names.get(name, node_id) == node_id and self.services.at(name) is None

    def create_key(self, wanted: NewKey) -> AuthKey:
        """Make an auth key with the *wanted* properties, without checking its tags."""
        number = next(self._count["key"])
        key_id = str(number) if self.headscale else f"k{number:06d}CNTRL"
        secret = hashlib.sha256(f"{self.domain}/{number}".encode()).hexdigest()[:32]
        now = self._clock()
        seconds = 0 if self.dead_keys else wanted.seconds or _KEY_SECONDS
        self.dead_keys -= bool(self.dead_keys)
        key = AuthKey(
            id=key_id,
            key=f"hskey-auth-{secret[:12]}-{secret}" if self.headscale else f"tskey-auth-{key_id}-{secret}",
            tags=wanted.tags,
            reusable=wanted.reusable,
            ephemeral=wanted.ephemeral,
            preauthorized=wanted.preauthorized,
            description=wanted.description,
            created=now,
            expires=now + seconds,
            user=wanted.user,
        )
        self._keys[key_id] = key
        self._secrets[key.key] = key_id
        return key

    def delete_key(self, key_id: str) -> None:
        """Revoke an auth key, if it exists."""
        self._keys.pop(key_id, None)

    def is_valid(self, key: AuthKey) -> bool:
        """Tell whether a device could still join with *key*."""
        return self._clock() < key.expires and (key.reusable or not key.used)

    def issue_token(self) -> str:
        """Return a new access token for the present scopes of the OAuth client."""
        kind = "hskey" if self.headscale else "tskey"
        token = f"{kind}-api-{self.domain.partition('.')[0]}-{next(self._count['token']):06d}"  # for this tailnet only
        self._tokens[token] = Token(self._clock() + self.token_seconds, frozenset(self.scopes))
        return token

    def token(self, value: str) -> Token | None:
        """Return the access token with the text *value*, or None if there is none or it has expired."""
        token = self._tokens.get(value)
        return token if token and self._clock() < token.expires else None

    def revoke_tokens(self) -> None:
        """Make every access token invalid, as the control server does when the OAuth client is revoked."""
        self._tokens.clear()

    def refused_tags(self, tags: Sequence[str], permitted: set[str] | None) -> list[str]:
        """Return the *tags* that are malformed or not among *permitted*."""
        return [tag for tag in tags if not tag.startswith("tag:") or (permitted is not None and tag not in permitted)]

    def _count_change(self) -> None:
        self.version += 1

    def _usable_key(self, auth_key: str) -> AuthKey:
        key = self._keys.get(self._secrets.get(auth_key, ""))
        if key is None:
            raise AuthKeyError("invalid key: API key does not exist")
        if not self.is_valid(key):
            raise AuthKeyError("invalid key: authkey already used or expired")
        return key

    def _free_name(self, hostname: str, node_id: str) -> str:
        label = hostname.lower()
        labels = itertools.chain([label], (f"{label}-{number}" for number in itertools.count(1)))
        names = (f"{label}.{self.domain}" for label in labels)
        return next(name for name in names if self.is_free(name, node_id))


class Tailnets:
    """The tailnets that proxies can join: the *main* one, and *others* by the URL of their control server."""

    def __init__(self, main: Tailnet) -> None:
        self.main = main
        self.others: dict[str, Tailnet] = {}

    def at(self, url: str) -> Tailnet:
        """Return the tailnet whose control server is at *url*, or the main one if no other tailnet has that URL."""
        return self.others.get(url.rstrip("/"), self.main)
