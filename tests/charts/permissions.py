"""Writes docs/permissions.md from the static manifests: each rule of each role, and the comment above it as the reason.

`make manifests` runs it, after it has written the manifests.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "permissions.md"
_MANIFESTS = ROOT / "charts" / "manifests"
_ACCOUNTS = {
    "tailscale-operator": "The operator, in the whole cluster",
    "operator": "The operator, in its own namespace",
    "proxies": "The proxies' Pods, in the operator's namespace",
    "tailscale-operator-dns": "The operator, for the cluster's DNS",
    "operator-apiserver-proxy": "The operator's API server proxy, in the operator's namespace",
    "tailscale-auth-proxy": "API server proxies, in the whole cluster",
}
"""The headings of the page, by the name of the role.

Roles with the same name in several namespaces have the same heading. The page adds their namespace.
"""
_FILES = {
    "operator.yaml": "",
    "cluster-dns.yaml": (
        "The chart adds the next rules with `operatorConfig.manageClusterDNS: true` or `dns.enabled: true`, for a"
        " DNSConfig that manages the cluster's DNS. The static manifest is `cluster-dns.yaml`."
    ),
    "apiserver-proxy.yaml": (
        'The chart adds the next rules for the API server proxy: the right to impersonate with `mode: "true"` or'
        ' `allowImpersonation: "true"` in `apiServerProxyConfig`, the others also with `mode: "noauth"`. The static'
        " manifest is `apiserver-proxy.yaml`."
    ),
}
_HEAD = """\
# Permissions

<!-- `make manifests` writes this page from the chart. The reason of a rule is the comment above it there. -->

This page lists each right that the chart gives to the operator and to the Pods that it makes, and the reason for it.
The end-to-end tests fail if a request of the operator is denied, and if no request uses a rule.

- With `operatorConfig.watchNamespaces`, the rules for users' Services, Ingresses and Events hold only in these
  namespaces and in the operator's own.
- The operator grants some of its rights in its own namespace to other Pods: the nameserver may read the records, and
  the Pods of ProxyGroups, Recorders and PeerRelays may keep their state. It can grant only rights that it has.
- The Pod that `helm test` starts has no rights.
"""


class Rule(NamedTuple):
    """One rule of a role, and the comment above it."""

    why: str
    rule: dict[str, list[str]]

    def row(self) -> str:
        """Return the rule as a row of a table."""
        groups = [group for group in self.rule.get("apiGroups", ()) if group]
        things = [*self.rule.get("resources", ()), *self.rule.get("nonResourceURLs", ())]
        objects = ", ".join(f"`{thing}`" for thing in things)
        of = f" of {', '.join(groups)}" if groups else ""
        named = ", ".join(f"`{name}`" for name in self.rule.get("resourceNames", ()))
        verbs = ", ".join(self.rule["verbs"])
        return f"| {objects}{of}{f', named {named}' if named else ''} | {verbs} | {self.why} |"


def rules(document: str) -> Iterator[Rule]:
    """Yield the rules in the manifest of a role. A rule without a comment of its own has that of the rule before."""
    why, ended = "", False
    _, _, body = document.partition("\nrules:\n")
    for block in re.split(r"(?m)^(?=  (?:#|- ))", body):
        if block.startswith("  #"):
            line = block.strip().removeprefix("# ")
            why, ended = (line if ended or not why else f"{why} {line}"), False
        elif block.startswith("  - "):
            (rule,) = yaml.safe_load(block)
            ended = True
            yield Rule(why, rule)


def page() -> str:
    """Return the text of docs/permissions.md."""
    parts = [_HEAD]
    for name, words in _FILES.items():
        if words:
            parts.append(f"{words}\n")
        for document in (_MANIFESTS / name).read_text().split("\n---\n"):
            found = [*rules(document)]
            if found:
                parts.append(_section(yaml.safe_load(document), found))
    return "\n".join(parts)


def _section(role: dict[str, dict[str, str]], found: list[Rule]) -> str:
    name, namespace = role["metadata"]["name"], role["metadata"].get("namespace", "")
    heading = _ACCOUNTS[name]
    if name == "tailscale-operator-dns" and namespace:
        heading += f", in `{namespace}`"
    return (
        "\n".join([f"## {heading}", "", "| Objects | Verbs | Why |", "|---|---|---|", *(each.row() for each in found)])
        + "\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
