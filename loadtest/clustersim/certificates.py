"""The certificates of Tailscale Services: replica 0 of a ProxyGroup stores each in a Secret with the domain's name."""

import hashlib
import secrets
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from clustersim.login import texts
from clustersim.objects import ROLE, ROLEBINDING, SECRET, Object
from clustersim.store import Store
from clustersim.x509 import certificate, end_of, moment

SHARES = "TS_EXPERIMENTAL_CERT_SHARE"
ACCOUNTS = "TS_ACME_ACCOUNT_SECRET_NAME"
ACCOUNT = "TS_ACME_ACCOUNT_FIELD"
SHARED_ACCOUNTS_SINCE = 143
"""The capability version from which Tailscale's proxy image uses an ACME account that several groups share."""

LIFETIME = timedelta(days=90)
RENEWED_BEFORE = timedelta(days=30)
CHECKED_EVERY = timedelta(hours=24)
_RETRIES = [timedelta(minutes=1), timedelta(minutes=10), timedelta(minutes=100), CHECKED_EVERY]


class CertificateError(Exception):
    """A certificate can't be stored."""


@dataclass(slots=True)
class _Loop:
    """The checks of one certificate: when the *next* check is due, and how many checks have failed in a row."""

    next: datetime
    failures: int = 0


class Certificates:
    """The certificates that a replica writes with the rights of the ServiceAccount *account*.

    If several groups share an ACME account, *shared* is the name of the Secret with this account, and the name of the
    field there that has the account's private key. It is None if this replica uses no shared account.
    """

    def __init__(self, store: Store, namespace: str, account: str, shared: tuple[str, str] | None) -> None:
        self._store = store
        self._namespace = namespace
        self._account = account
        self._shared = shared
        self._loops: dict[str, _Loop] = {}

    def follow(self, domains: Collection[str], listed: Collection[str]) -> None:
        """Get and renew the certificates of those *domains* that the control server has *listed* for the device.

        If a certificate can't be stored, try again after 1, 10 and 100 minutes, and after that once a day.
        """
        now = self._store.now()
        self._loops = {domain: self._loops.get(domain) or _Loop(now) for domain in domains}
        for domain, loop in self._loops.items():
            if domain not in listed or loop.next > now:
                continue
            try:
                self._renew(domain, now)
            except CertificateError:
                loop.next = now + _RETRIES[min(loop.failures, len(_RETRIES) - 1)]
                loop.failures += 1
            else:
                loop.next, loop.failures = now + CHECKED_EVERY, 0

    def _renew(self, domain: str, now: datetime) -> None:
        """Store a new certificate for *domain*, unless the present one is valid for longer than `RENEWED_BEFORE`.

        Raises CertificateError.
        """
        ends = end_of(self._read(domain).get("tls.crt", ""))
        if ends is not None and ends - now > RENEWED_BEFORE:
            return
        account = self._account_key()
        times = moment(now), moment(now + LIFETIME)
        stored = {"tls.crt": certificate(*times, serial=b"\x01" + secrets.token_bytes(15)), "tls.key": _private_key()}
        if account:
            stored["acme-account-fingerprint"] = hashlib.sha256(account.encode()).hexdigest()
        self._patch(domain, stored)

    def _account_key(self) -> str:
        """Return the key of the shared ACME account, or "" if no account is shared.

        Make the account if it doesn't exist yet.
        """
        if self._shared is None:
            return ""
        name, field = self._shared
        key = self._read(name).get(field) or _private_key()
        self._patch(name, {field: key})
        return key

    def _read(self, name: str) -> dict[str, str]:
        secret = self._store.find(SECRET, self._namespace, name)
        if secret is None:
            raise CertificateError(f'secrets "{name}" not found')
        return texts(secret)

    def _patch(self, name: str, values: Mapping[str, str]) -> None:
        if not may(self._store, self._namespace, self._account, "patch", name):
            raise CertificateError(f'secrets "{name}" is forbidden')
        data = {key: b64encode(value.encode()).decode() for key, value in values.items()}
        self._store.merge(SECRET, self._namespace, name, {"data": data})


def domains_in(serve_config: Object) -> list[str]:
    """Return the domains that a serve configuration needs certificates for."""
    places = [place for service in (serve_config.get("Services") or {}).values() for place in service.get("Web") or {}]
    return [domain for domain, _, port in (place.rpartition(":") for place in places) if port == "443"]


def may(store: Store, namespace: str, account: str, verb: str, secret: str) -> bool:
    """Tell whether RBAC allows the ServiceAccount *account* to do *verb* with *secret*, both in *namespace*.

    The rights come from the Roles that RoleBindings in this namespace give to the account.
    """
    return any(
        "secrets" in rule["resources"] and verb in rule["verbs"] and secret in (rule.get("resourceNames") or [secret])
        for role in _roles(store, namespace, account)
        for rule in role.get("rules") or ()
    )


def _roles(store: Store, namespace: str, account: str) -> Iterator[Object]:
    """Yield the Roles that RoleBindings in *namespace* give to the ServiceAccount *account*."""
    for binding in store.list(ROLEBINDING, namespace):
        subjects: Iterable[Object] = binding.get("subjects") or ()
        if any((each["kind"], each["name"]) == ("ServiceAccount", account) for each in subjects):
            role = store.find(ROLE, namespace, binding["roleRef"]["name"])
            yield from [role] if role else []


def _private_key() -> str:
    key = b64encode(secrets.token_bytes(48)).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{key}\n-----END EC PRIVATE KEY-----\n"
