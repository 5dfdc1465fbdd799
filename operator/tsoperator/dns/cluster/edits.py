"""Plans the writes that put our stub domain into the configuration of the cluster's DNS, or take it out."""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tsoperator.api.names import LABEL_MANAGED, MANAGED
from tsoperator.api.objects import CONFIGMAP, Key, Object, annotations, key_of, labels
from tsoperator.dns.cluster.openshift import servers_of, with_server, without_server
from tsoperator.dns.cluster.platforms import (
    COREFILE,
    CUSTOM,
    CUSTOM_KEY,
    KUBE_DNS,
    OPENSHIFT_DNS,
    OPENSHIFT_NAME,
    SERVERS,
    STUB_DOMAINS,
    Platform,
    PlatformKind,
    configmap,
    corefile_maps,
    corefile_of,
    corefiles,
    data_of,
    overrides,
    place,
    restart_of,
)
from tsoperator.dns.cluster.results import Change, DNSObjects, Nothing, StubDomain
from tsoperator.dns.cluster.serverblock import corefile_refusal, plugin_refusal, with_block, without_block
from tsoperator.dns.cluster.stubdomains import ANNOTATION, Edited, with_zones, without_zones
from tsoperator.runtime.plan import Creation, Deletion, Patch, Refusal

_MAX_SIZE: Final = 1 << 20
"""The largest number of bytes that all values of a ConfigMap can have together."""
_ABOUT: Final = "the stub domain"

Result = Change | Nothing | Refusal


def plan_edit(platform: Platform, objects: DNSObjects, stub: StubDomain, owner: str) -> Result:
    """Return the write that makes the cluster's DNS ask the nameserver for the zones of *stub*, and for no other zones.

    The write changes the object of *platform*. `plan_removal` removes our stub domain from other objects. *owner* is
    our namespace, which tells our stub domain from that of another operator.
    """
    match platform.kind:
        case PlatformKind.CORE_DNS | PlatformKind.CORE_DNS_CUSTOM:
            return _into_corefile(platform, objects, stub, owner)
        case PlatformKind.KUBE_DNS:
            found = configmap(objects, KUBE_DNS)
            if found is None:
                return _gone_refusal(platform)
            return _stub_domains(found, with_zones(*_stub_domains_of(found), platform.where, stub, owner))
        case PlatformKind.OPENSHIFT:
            if objects.openshift is None:
                return _gone_refusal(platform)
            servers = servers_of(objects.openshift)
            wanted = with_server(servers, platform.where, stub, owner)
            return wanted if isinstance(wanted, Refusal) else _openshift(servers, wanted)


def plan_removal(objects: DNSObjects, owner: str, keep: Platform | None = None) -> Sequence[Change | Refusal]:
    """Return the writes that remove our stub domain from *objects*, except from the object of the platform *keep*.

    An object without our stub domain needs no write, even if the operator can't parse it. *owner* is our namespace.
    """
    planned = [result for where, result in _removals(objects, owner) if keep is None or (keep.key, keep.entry) != where]
    return [result for result in planned if not isinstance(result, Nothing)]


def _removals(objects: DNSObjects, owner: str) -> Iterator[tuple[tuple[Key, str], Result]]:
    for each in corefile_maps(objects):
        key = key_of(each)
        text = without_block(data_of(each).get(COREFILE, ""), place(CONFIGMAP, key, COREFILE), owner)
        yield (key, COREFILE), _data(each, COREFILE, text, _restart(objects))
    if found := configmap(objects, CUSTOM):
        yield (key_of(found), CUSTOM_KEY), _out_of_custom(found, _restart(objects), owner)
    if found := configmap(objects, KUBE_DNS):
        key = key_of(found)
        edited = without_zones(*_stub_domains_of(found), place(CONFIGMAP, key, STUB_DOMAINS), owner)
        yield (key, STUB_DOMAINS), _stub_domains(found, edited)
    if objects.openshift is not None:
        servers = servers_of(objects.openshift)
        yield (Key("", OPENSHIFT_NAME), SERVERS), _openshift(servers, without_server(servers, owner))


def _restart(objects: DNSObjects) -> str:
    found = corefile_of(objects)
    return "" if isinstance(found, Refusal) else restart_of(objects, *found)


def _gone_refusal(platform: Platform) -> Refusal:
    return Refusal(f"{platform.where}, isn't there any more: set spec.clusterDNS.platform", "PlatformMissing")


def _into_corefile(platform: Platform, objects: DNSObjects, stub: StubDomain, owner: str) -> Result:
    """Return the write of our server block for *stub*, or the refusal that says why it is impossible.

    The block goes into the Corefile, or becomes our key of ConfigMap coredns-custom. The write is impossible if any
    file already has another server block for one of our zones.
    """
    found = configmap(objects, platform.key.name)
    if platform.kind is PlatformKind.CORE_DNS and COREFILE not in data_of(found):
        return _gone_refusal(platform)
    for where, text in corefiles(objects):
        if taken := corefile_refusal(text, where, stub, platform.at, owner):
            return taken
    for where, plugins in overrides(objects):
        if taken := plugin_refusal(plugins, where, stub.zones):
            return taken
    edited = with_block(data_of(found).get(platform.entry, ""), platform.where, stub, platform.at, owner)
    if found is not None or isinstance(edited, Refusal):
        return _data(found or {}, platform.entry, edited, platform.restart)
    namespace, name = platform.key
    metadata = {"namespace": namespace, "name": name, "labels": {LABEL_MANAGED: MANAGED}}
    wanted = {"apiVersion": "v1", "kind": CONFIGMAP.kind, "metadata": metadata, "data": {platform.entry: edited}}
    return Change(Creation(wanted), platform.restart)


def _out_of_custom(found: Object, restart: str, owner: str) -> Result:
    """Return the write that removes our server block from *found*, which is ConfigMap coredns-custom.

    The write removes our key, or deletes the ConfigMap if it is ours and has no other key and no binary data. If our
    key has more text than our block, that text stays. *restart* says how to make CoreDNS load the change; empty if it
    does so by itself. *owner* is our namespace.
    """
    data = data_of(found)
    text = without_block(data.get(CUSTOM_KEY, ""), place(CONFIGMAP, key_of(found), CUSTOM_KEY), owner)
    if isinstance(text, Refusal) or text == data.get(CUSTOM_KEY, ""):
        return _data(found, CUSTOM_KEY, text, restart)
    is_ours_alone = data.keys() == {CUSTOM_KEY} and not found.get("binaryData")
    if not text and labels(found).get(LABEL_MANAGED) == MANAGED and is_ours_alone:
        return Change(Deletion(CONFIGMAP, found, unchanged=True), restart)
    return _patch(found, {"data": {CUSTOM_KEY: text or None}}, restart)


def _stub_domains_of(found: Object) -> tuple[str | None, str | None]:
    return data_of(found).get(STUB_DOMAINS), annotations(found).get(ANNOTATION)


def _stub_domains(found: Object, edited: Edited | Refusal) -> Result:
    if isinstance(edited, Refusal):
        return edited
    if edited == _stub_domains_of(found):
        return Nothing()
    if too_large := _too_large(found, STUB_DOMAINS, edited.text or ""):
        return too_large
    metadata = {"annotations": {ANNOTATION: edited.annotation}}
    return _patch(found, {"metadata": metadata, "data": {STUB_DOMAINS: edited.text}}, "")


def _openshift(servers: Sequence[Object], wanted: Sequence[Object]) -> Result:
    if [*servers] == [*wanted]:
        return Nothing()
    return Change(Patch(OPENSHIFT_DNS, Key("", OPENSHIFT_NAME), {"spec": {"servers": [*wanted] or None}}, _ABOUT))


def _data(found: Object, key: str, text: str | Refusal, restart: str) -> Result:
    """Return the write that sets *key* in the ConfigMap *found* to *text*.

    If *text* is a refusal, return that refusal. If *key* has this text already, return Nothing. If the ConfigMap would
    become too large, return a refusal. *restart* says how to make CoreDNS load the change; empty if it does so by
    itself.
    """
    if isinstance(text, Refusal):
        return text
    if text == data_of(found).get(key, ""):
        return Nothing(restart)
    return _too_large(found, key, text) or _patch(found, {"data": {key: text}}, restart)


def _patch(found: Object, body: Mapping[str, object], restart: str) -> Change:
    return Change(Patch(CONFIGMAP, key_of(found), {**body}, _ABOUT), restart)


def _too_large(found: Object, key: str, text: str) -> Refusal | None:
    """Return a refusal if *text* as the value of *key* makes the ConfigMap *found* too large for the API server.

    Return None if it doesn't.
    """
    texts = {**data_of(found), key: text}
    size = sum(len(each.encode(errors="surrogatepass")) for each in texts.values())
    size += sum(len(b64decode(each)) for each in (found.get("binaryData") or {}).values())
    if size <= _MAX_SIZE:
        return None
    message = (
        f"ConfigMap {key_of(found)} has no room for the stub domain: with it there would be {size} bytes, and a "
        f"ConfigMap holds {_MAX_SIZE}: take something out of it"
    )
    return Refusal(message, "ConfigMapFull")
