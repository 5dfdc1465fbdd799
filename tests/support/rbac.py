"""The permissions of a namespace's ServiceAccounts, and their allowed and denied requests, from the audit log."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from operatorbench.audit import Entry
from tsoperator.kube.client import USER_AGENT

Object = dict[str, Any]

_MANIFESTS = Path(__file__).parents[2] / "charts" / "manifests"
_AUTHORIZATION = "authorization.k8s.io"
_IMPERSONATOR = "ClusterRole tailscale-auth-proxy"
"""The role that allows impersonation. The audit log doesn't name it."""
_IMPERSONATE = "impersonate"
_NOT_IMPERSONATED = re.compile(r'cannot impersonate resource "(?P<kind>\w+)"')
_GRANTED_BY = re.compile(
    r'RBAC: allowed by \w+ "[^"/]+(?:/(?P<namespace>[^"]+))?" of (?P<kind>\w+) "(?P<name>[^"]+)" to ServiceAccount'
)


class Permission(NamedTuple):
    """One verb on one resource in a role. The resource can be a subresource."""

    role: str
    verb: str
    resource: str

    def __str__(self) -> str:
        return f"{self.role}: {self.verb} {self.resource}"


class Request(NamedTuple):
    """The facts about a request that decide whether it is authorized.

    *namespace* is empty if the request is about all namespaces, or about a cluster-scoped resource.
    """

    user: str
    verb: str
    resource: str
    namespace: str


class Denial(NamedTuple):
    """A request that was denied, its time, and the API server's message."""

    request: Request
    when: datetime
    said: str

    def __str__(self) -> str:
        return f"{self.when:%H:%M:%S.%f} {self.said}"


@dataclass(frozen=True, slots=True)
class Conduct:
    """The permissions that have allowed requests in the audit log, the allowed requests, and the denied ones."""

    used: set[Permission] = field(default_factory=set)
    allowed: set[Request] = field(default_factory=set)
    denied: list[Denial] = field(default_factory=list)

    @classmethod
    def of(cls, namespace: str, operator: str, requests: Iterable[Entry]) -> "Conduct":
        """Return the conduct of the ServiceAccounts of *namespace*.

        Requests of the ServiceAccount *operator* are included only if our program made them, since another operator can
        use the same ServiceAccount. Requests in the name of users of the tailnet only show that impersonation is
        allowed: the ServiceAccount needs no other right for them.
        """
        conduct = cls()
        prefix = f"system:serviceaccount:{namespace}:"
        for entry in requests:
            account = entry["user"]["username"].removeprefix(prefix)
            theirs = account == operator and entry.get("userAgent") != USER_AGENT
            if account == entry["user"]["username"] or theirs:
                continue
            if "impersonatedUser" in entry:
                conduct._note_impersonation(entry["impersonatedUser"], account)
            elif "objectRef" in entry:
                conduct._note(entry, account)
        return conduct

    def _note_impersonation(self, user: Object, account: str) -> None:
        kinds = ["users", *(["groups"] if {*user.get("groups", ())} - {"system:authenticated"} else [])]
        self.used.update(Permission(_IMPERSONATOR, _IMPERSONATE, kind) for kind in kinds)
        self.allowed.update(Request(account, _IMPERSONATE, kind, "") for kind in kinds)

    def _note(self, entry: Entry, account: str) -> None:
        reference = entry["objectRef"]
        request = Request(
            account,
            entry["verb"],
            _named(reference.get("apiGroup", ""), reference["resource"], reference.get("subresource", "")),
            reference.get("namespace", ""),
        )
        asked = entry.get("annotations") or {}  # a request that was refused before its authorization has none
        if _is_denied(entry):
            when = datetime.fromisoformat(entry["requestReceivedTimestamp"])
            said = entry["responseStatus"].get("message") or f"{request}: {entry['requestURI']}"
            if refused := _NOT_IMPERSONATED.search(said):
                request = Request(account, _IMPERSONATE, refused["kind"], "")
            self.denied.append(Denial(request, when, said))
        elif asked.get(f"{_AUTHORIZATION}/decision") == "allow":
            self.allowed.add(request)
        if by := _GRANTED_BY.match(asked.get(f"{_AUTHORIZATION}/reason", "")):
            self.used.add(Permission(_role(by["kind"], by["namespace"], by["name"]), request.verb, request.resource))


@cache
def operators_rights() -> Sequence[Object]:
    """Return the roles of the operator, and their bindings, as the chart makes them."""
    texts = (_MANIFESTS / name for name in ("operator.yaml", "cluster-dns.yaml"))
    made = (obj for text in texts for obj in yaml.load_all(text.read_text(), yaml.CSafeLoader) if obj)
    return [
        obj for obj in made if obj["kind"].endswith(("Role", "RoleBinding")) and obj["metadata"]["name"] != "proxies"
    ]


def permissions(role: Object) -> Iterator[Permission]:
    """Yield the permissions in a Role or a ClusterRole."""
    metadata = role["metadata"]
    name = _role(role["kind"], metadata.get("namespace", ""), metadata["name"])
    for rule in role["rules"] or ():
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
            yield Permission(name, verb, _named(group, *resource.split("/")))


def bound(namespace: str, objects: Iterable[Object]) -> list[Object]:
    """Return the roles among *objects* that bindings among *objects* bind to ServiceAccounts of *namespace*."""
    objects = list(objects)
    wanted = {
        _role(binding["roleRef"]["kind"], binding["metadata"].get("namespace", ""), binding["roleRef"]["name"])
        for binding in objects
        for subject in binding.get("subjects") or ()
        if subject["kind"] == "ServiceAccount" and subject.get("namespace") == namespace
    }
    return [
        obj
        for obj in objects
        if "rules" in obj
        and _role(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) in wanted
    ]


def _role(kind: str, namespace: str | None, name: str) -> str:
    return f"{kind} {name}" if kind == "ClusterRole" else f"{kind} {namespace}/{name}"


def _named(group: str, resource: str, subresource: str = "") -> str:
    """Return a resource as kubectl writes it: ``services/status``, ``leases.coordination.k8s.io``."""
    plural = f"{resource}.{group}" if group else resource
    return f"{plural}/{subresource}" if subresource else plural


def _is_denied(entry: Entry) -> bool:
    """Tell whether a request was denied for lack of a permission, and not because its namespace is terminating."""
    status = entry.get("responseStatus") or {}
    causes = (status.get("details") or {}).get("causes") or ()
    return status.get("code") == 403 and not any(cause["reason"] == "NamespaceTerminating" for cause in causes)
