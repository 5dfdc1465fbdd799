"""The account that the Pods of a ProxyGroup run under, and their Secrets (docs/development/proxies.md)."""

from collections.abc import Iterable, Sequence

from tsoperator.api.names import CONFIG_SUFFIX, LABEL_SECRET_TYPE, SECRET_TYPE_CONFIG, SECRET_TYPE_STATE
from tsoperator.api.objects import (
    CONFIGMAP,
    PROXYGROUP,
    ROLE,
    ROLEBINDING,
    SECRET,
    SERVICEACCOUNT,
    Key,
    Object,
    Resource,
    is_deleting,
    key_of,
    labels,
)
from tsoperator.group.egress import config_name
from tsoperator.proxy.login import Keys
from tsoperator.proxy.secret import config_patch, encoded
from tsoperator.proxy.tailscaled import config_files
from tsoperator.proxy.workload import Children, Proxy
from tsoperator.runtime.diff import contains
from tsoperator.runtime.ownership import owner_reference
from tsoperator.runtime.plan import Creation, Patch, Step


def in_order(named: Iterable[Object], group: str) -> list[Object]:
    """Return those of the Pods or Secrets *named* that have the name of a replica of *group*, by ordinal.

    The state Secret of a replica comes before its config Secret.
    """
    found: list[tuple[int, str, Object]] = []
    for each in named:
        name = key_of(each).name
        stem, _, ordinal = name.removesuffix(CONFIG_SUFFIX).rpartition("-")
        if stem == group and ordinal.isdecimal():
            found.append((int(ordinal), name, each))
    return [each for _, _, each in sorted(found, key=lambda item: item[:2])]


def group_child(proxy: Proxy, resource: Resource, name: str, content: Object | None = None) -> Object:
    """Return a child of the ProxyGroup that *proxy* is for."""
    metadata = {
        "namespace": proxy.key.namespace,
        "name": name,
        "labels": proxy.owner.labels,
        "ownerReferences": [owner_reference(PROXYGROUP, proxy.owner.key.name, proxy.parent_uid)],
    }
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **(content or {})}


def account(proxy: Proxy, ordinals: Iterable[int]) -> list[Object]:
    """Return the ServiceAccount of the Pods, with a Role for the Secrets of the replicas with these *ordinals*."""
    name = proxy.key.name
    subject = {"kind": SERVICEACCOUNT.kind, "name": name, "namespace": proxy.key.namespace}
    role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name}
    return [
        group_child(proxy, SERVICEACCOUNT, name),
        group_child(proxy, ROLE, name, {"rules": _rules(name, ordinals)}),
        group_child(proxy, ROLEBINDING, name, {"roleRef": role, "subjects": [subject]}),
    ]


def _rules(name: str, ordinals: Iterable[int]) -> list[Object]:
    """Return the rules of the Role. A rule that named no Secrets would hold for all, so then there is none."""
    secrets = [f"{name}-{each}{suffix}" for each in sorted(ordinals) for suffix in (CONFIG_SUFFIX, "")]
    own = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get", "patch", "update"]}
    return [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]},
        *([own] if secrets else []),
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "get"]},
    ]


def secret_steps(proxy: Proxy, children: Children, keys: Keys) -> Iterable[Step]:
    """Yield the steps that make the two Secrets of each replica, or bring them up to date; *keys* are auth keys.

    A replica that awaits its auth key gets or changes none.
    """
    for replica in proxy.replicas:
        if replica.ordinal in keys.awaited:
            continue
        found, config = children.secrets_of(replica), proxy.config_of(replica)
        auth_key = keys.by_ordinal.get(replica.ordinal, "")
        whole = _secret(proxy, replica.config_secret, SECRET_TYPE_CONFIG)
        state = _secret(proxy, replica.state_secret, SECRET_TYPE_STATE)
        if found.config is None:
            yield Creation({**whole, "data": encoded(config_files(config, auth_key))})
        else:
            yield from _corrected(found.config, whole, config_patch(found, config, auth_key))
        if found.state is None:
            yield Creation(state)
        else:
            yield from _corrected(found.state, state)


def configmap(proxy: Proxy) -> Object:
    """Return the egress ConfigMap without its data."""
    return group_child(proxy, CONFIGMAP, config_name(proxy.key.name))


def metadata_patch(live: Object, wanted: Object) -> Object:
    """Return the merge patch of metadata that gives *live* the labels and the owner of *wanted*, empty if it has them.

    Owner references of others stay.
    """
    ours = wanted["metadata"]
    missing = {name: value for name, value in labels(wanted).items() if labels(live).get(name) != value}
    patch: Object = {"labels": missing} if missing else {}
    references: Sequence[Object] = live["metadata"].get("ownerReferences") or ()
    owners = [each for each in ours.get("ownerReferences") or () if each.get("controller")]
    if not all(any(contains(each, owner) for each in references) for owner in owners):
        others = [each for each in references if not each.get("controller")]
        patch["ownerReferences"] = [*others, *owners]
        patch["resourceVersion"] = live["metadata"]["resourceVersion"]
    return patch


def _secret(proxy: Proxy, key: Key, type_: str) -> Object:
    made = group_child(proxy, SECRET, key.name, {"type": "Opaque"})
    made["metadata"]["labels"] = {**proxy.owner.labels, LABEL_SECRET_TYPE: type_}
    return made


def _corrected(live: Object, wanted: Object, patch: Patch | None = None) -> Iterable[Patch]:
    """Yield *patch* with what the metadata of *live* lacks, if there is anything to write."""
    if is_deleting(live):
        return
    metadata = metadata_patch(live, wanted)
    body = ({"metadata": metadata} if metadata else {}) | (patch.body if patch else {})
    if body:
        yield Patch(SECRET, key_of(live), body)
