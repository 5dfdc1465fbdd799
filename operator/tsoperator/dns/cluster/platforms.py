"""Finds out what the cluster's DNS is, and which object has its stub domains."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from tsoperator.api.objects import CONFIGMAP, Key, Object, Resource, key_of
from tsoperator.dns.cluster.corefile import Corefile, CorefileError, Directive, parse_plugins
from tsoperator.dns.cluster.nodecache import bypass
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.cluster.serverblock import EVERYWHERE, Listening, listening, read_corefile
from tsoperator.runtime.plan import Refusal

NAMESPACE: Final = "kube-system"
COREDNS: Final = "coredns"
"""The name of the Deployment or the DaemonSet that runs CoreDNS, and of the ConfigMap with its Corefile."""
COREFILES: Final = (COREDNS, "coredns-base", "rke2-coredns-rke2-coredns")
CUSTOM: Final = "coredns-custom"
KUBE_DNS: Final = "kube-dns"
NODE_CACHE: Final = "node-local-dns"
KUBESPRAY_CACHE: Final = "nodelocaldns"
NODE_CACHES: Final = (NODE_CACHE, KUBESPRAY_CACHE)
"""The names of the ConfigMaps with a Corefile of NodeLocal DNSCache. The operator only reads these ConfigMaps."""
CONFIGMAPS: Final = (*COREFILES, CUSTOM, KUBE_DNS, *NODE_CACHES)
"""The names of the ConfigMaps in NAMESPACE by which the operator finds out what the cluster's DNS is."""
OPENSHIFT_DNS: Final = Resource("operator.openshift.io", "v1", "dnses", "DNS", namespaced=False)
OPENSHIFT_NAME: Final = "default"

COREFILE: Final = "Corefile"
CUSTOM_KEY: Final = "tailnet.server"
"""The key of ConfigMap coredns-custom that only the operator writes."""
OVERRIDES: Final = (".override", ".include")
"""The suffixes of the keys of ConfigMap coredns-custom that clusters import into the server block for all names."""
STUB_DOMAINS: Final = "stubDomains"
SERVERS: Final = "spec.servers"


_VALUE: Final = "operatorConfig.clusterDNSConfigMap"
_CONF: Final = "/etc/coredns/Corefile"
"""The path of the Corefile if the arguments of CoreDNS name no other path."""


class PlatformKind(StrEnum):
    """The kind of configuration that the cluster's DNS reads, as spec.clusterDNS.platform of a DNSConfig calls it."""

    CORE_DNS = "CoreDNS"
    CORE_DNS_CUSTOM = "CoreDNSCustom"
    KUBE_DNS = "KubeDNS"
    OPENSHIFT = "OpenShift"


@dataclass(frozen=True, slots=True)
class Platform:
    """The kind of the cluster's DNS, and the object and the key or field that have its configuration."""

    kind: PlatformKind
    resource: Resource
    key: Key
    """The key of the object that the operator has to write. For CoreDNSCustom, there is possibly no such object yet."""
    entry: str
    """The key in the ConfigMap's data, or the field of OpenShift's object, that has the stub domain."""
    at: Listening = EVERYWHERE
    """The addresses at which CoreDNS takes queries."""
    restart: str = ""
    """The manual step that makes CoreDNS load a change; empty if CoreDNS loads changes by itself."""
    node_cache: str = ""
    """The reason why Pods behind NodeLocal DNSCache don't reach the stub domain, with the cure; empty if they do."""

    @property
    def where(self) -> str:
        """Words for the user that name the object with the stub domain, and the key or field in it."""
        return place(self.resource, self.key, self.entry)


def place(resource: Resource, key: Key, entry: str) -> str:
    """Return words that name an object by its kind *resource* and its *key*, and the key or field *entry* in it.

    An example is: ConfigMap kube-system/coredns, key Corefile.
    """
    return f"{resource.kind} {key}, {'key ' if resource is CONFIGMAP else ''}{entry}"


def find_platform(
    objects: DNSObjects,
    wanted: str | None = None,
    zones: Sequence[str] = (),
    addresses: Sequence[str] = (),
    cluster_domain: str = "",
) -> Platform | Refusal:
    """Return the platform that a DNSConfig names in spec.clusterDNS.platform, or else the one that *objects* show.

    *wanted* is the value in the DNSConfig. Return a refusal if the objects lack the platform. *zones* and
    *addresses* are those of the stub domain. From them and *cluster_domain*, the function finds out whether NodeLocal
    DNSCache bypasses the stub domain, for `Platform.node_cache`.
    """
    kind = PlatformKind(wanted) if wanted else _kind(objects)
    if isinstance(kind, Refusal):
        return kind
    match kind:
        case PlatformKind.OPENSHIFT:
            if objects.openshift is None:
                return _missing_refusal(
                    kind, f"{OPENSHIFT_DNS.kind} {OPENSHIFT_NAME} of {OPENSHIFT_DNS.group} isn't there"
                )
            return Platform(kind, OPENSHIFT_DNS, Key("", OPENSHIFT_NAME), SERVERS)
        case PlatformKind.KUBE_DNS:
            if configmap(objects, KUBE_DNS) is None:
                return _missing_refusal(kind, f"ConfigMap {NAMESPACE}/{KUBE_DNS} isn't there")
            return Platform(kind, CONFIGMAP, Key(NAMESPACE, KUBE_DNS), STUB_DOMAINS)
    found = _coredns(objects, kind)
    if isinstance(found, Refusal):
        return found
    return replace(found, node_cache=_node_cache(objects, zones, addresses, cluster_domain))


def configmap(objects: DNSObjects, name: str) -> Object | None:
    """Return the ConfigMap of kube-system that is called *name*; None if *objects* lack it."""
    return next((each for each in objects.configmaps if key_of(each) == Key(NAMESPACE, name)), None)


def data_of(found: Object | None) -> Mapping[str, str]:
    """Return the data of the ConfigMap *found*; empty if it is None."""
    return (found or {}).get("data") or {}


def configmap_names(corefile: str) -> Sequence[str]:
    """Return the names of the ConfigMaps from which the operator learns the configuration of the cluster's DNS.

    *corefile* is the name that the user has set for the ConfigMap with the Corefile; empty if the user has set none.
    """
    return [*dict.fromkeys((*CONFIGMAPS, *([corefile] if corefile else ())))]


def corefile_maps(objects: DNSObjects) -> Iterator[Object]:
    """Yield the ConfigMaps from which CoreDNS can read its Corefile."""
    for name in dict.fromkeys((*COREFILES, mounted_corefile(objects), objects.corefile)):
        if found := configmap(objects, name):
            yield found


def mounted_corefile(objects: DNSObjects) -> str:
    """Return the name of the ConfigMap that CoreDNS's Pods mount the Corefile from; empty if they don't mount one."""
    pods = [each["spec"]["template"]["spec"] for each in objects.workloads]
    return next(filter(None, (_mounted(pod, each) for pod in pods for each in pod["containers"])), "")


def _mounted(pod: Object, container: Object) -> str:
    arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
    words = [word for each in arguments for word in each.split("=", 1)]
    conf = next((value for flag, value in pairwise(words) if flag in ("-conf", "--conf")), _CONF)
    folder = PurePosixPath(conf).parent
    mounts = container.get("volumeMounts") or ()
    volumes = {each["name"] for each in mounts if PurePosixPath(each["mountPath"]) in (folder, PurePosixPath(conf))}
    maps = (each.get("configMap") or {} for each in pod.get("volumes") or () if each["name"] in volumes)
    return next((each["name"] for each in maps if each.get("name")), "")


def restart_of(objects: DNSObjects, name: str, corefile: Corefile) -> str:
    """Say how to make CoreDNS load a change of the Corefile in ConfigMap *name*; empty if CoreDNS does so by itself."""
    if corefile.has("reload") or any(each.name == "reload" for _, found in overrides(objects) for each in found):
        return ""
    coredns = next((f"{each['kind'].lower()} {key_of(each).name}" for each in objects.workloads), f"deployment {name}")
    return f"CoreDNS has no reload plugin, so restart it: kubectl -n {NAMESPACE} rollout restart {coredns}"


def corefile_of(objects: DNSObjects) -> tuple[str, Corefile] | Refusal:
    """Return the name of CoreDNS's ConfigMap and the contents of its Corefile, or a refusal if they can't be read."""
    told = mounted_corefile(objects)
    names = [told] if told else [*filter(None, [objects.corefile]), *COREFILES]
    found = next(filter(None, (configmap(objects, name) for name in names)), None)
    if found is None and not told:
        return Refusal(f"{NAMESPACE} has no ConfigMap {' or '.join(names)}", "PlatformMissing")
    if found is None and told not in configmap_names(objects.corefile):
        return _unseen(told)
    where = place(CONFIGMAP, key_of(found) if found else Key(NAMESPACE, told), COREFILE)
    if found is None or COREFILE not in data_of(found):
        return Refusal(f"{where}, isn't there: put it back", "CorefileMissing")
    corefile = read_corefile(data_of(found)[COREFILE], where)
    return corefile if isinstance(corefile, Refusal) else (key_of(found).name, corefile)


def corefiles(objects: DNSObjects) -> Iterator[tuple[str, str]]:
    """Yield a description and the text of each file that has server blocks: the Corefile, and files that it imports.

    Yield nothing if the Corefile can't be read.
    """
    main = corefile_of(objects)
    if isinstance(main, Refusal):
        return
    name, corefile = main
    yield place(CONFIGMAP, Key(NAMESPACE, name), COREFILE), data_of(configmap(objects, name))[COREFILE]
    if _imports(objects, corefile):
        for key, text in data_of(configmap(objects, CUSTOM)).items():
            if key.endswith(".server"):
                yield place(CONFIGMAP, Key(NAMESPACE, CUSTOM), key), text


def overrides(objects: DNSObjects) -> Iterator[tuple[str, Sequence[Directive]]]:
    """Yield a description and the plugins of each file that a Corefile can import into its server block for all names.

    Files that can't be read are left out.
    """
    for key, text in data_of(configmap(objects, CUSTOM)).items():
        if key.endswith(OVERRIDES):
            with contextlib.suppress(CorefileError):
                yield place(CONFIGMAP, Key(NAMESPACE, CUSTOM), key), parse_plugins(text)


def _kind(objects: DNSObjects) -> PlatformKind | Refusal:
    """Return the kind of the cluster's DNS that *objects* show, or a refusal if they don't show it."""
    if objects.openshift is not None:
        return PlatformKind.OPENSHIFT
    found = corefile_of(objects)
    if not isinstance(found, Refusal):
        return PlatformKind.CORE_DNS_CUSTOM if _imports(objects, found[1]) else PlatformKind.CORE_DNS
    if found.reason != "PlatformMissing":
        return found
    if configmap(objects, KUBE_DNS) is not None:
        return PlatformKind.KUBE_DNS
    message = (
        f"the cluster's DNS isn't known: the operator sees none of the ConfigMaps {', '.join((*COREFILES, KUBE_DNS))} "
        f"in {NAMESPACE}. If CoreDNS reads its Corefile from another ConfigMap there, set {_VALUE} of the chart to its "
        "name. Otherwise write the stub domain into your DNS yourself, and set spec.clusterDNS.mode to Manual"
    )
    return Refusal(message, "PlatformUnknown")


def _unseen(name: str) -> Refusal:
    message = (
        f"CoreDNS reads its Corefile from ConfigMap {NAMESPACE}/{name}, which the operator may not read: set {_VALUE} "
        f"of the chart to {name}. Without Helm, do what docs/dns.md says"
    )
    return Refusal(message, "NotPermitted")


def _missing_refusal(kind: PlatformKind, problem: str) -> Refusal:
    message = f"spec.clusterDNS.platform is {kind}, but {problem}: correct the platform, or leave it out"
    return Refusal(message, "PlatformMissing")


def _coredns(objects: DNSObjects, kind: PlatformKind) -> Platform | Refusal:
    found = corefile_of(objects)
    if isinstance(found, Refusal):
        return _missing_refusal(kind, found.message) if found.reason == "PlatformMissing" else found
    name, corefile = found
    key, entry = Key(NAMESPACE, name), COREFILE
    if kind is PlatformKind.CORE_DNS_CUSTOM:
        if not _imports(objects, corefile):
            return _missing_refusal(
                kind, f"{place(CONFIGMAP, key, entry)}, imports no *.server files outside of its server blocks"
            )
        key, entry = Key(NAMESPACE, CUSTOM), CUSTOM_KEY
    return Platform(kind, CONFIGMAP, key, entry, listening(corefile), restart_of(objects, name, corefile))


def _imports(objects: DNSObjects, corefile: Corefile) -> bool:
    """Tell whether *corefile* imports our key of ConfigMap coredns-custom, or would import the key if it existed.

    Only an import outside of server blocks counts, because the key holds a server block.
    """
    for pattern in map(PurePosixPath, corefile.imports):
        likely = pattern.parent.name == "custom" or configmap(objects, CUSTOM) is not None
        if likely and fnmatchcase(CUSTOM_KEY, pattern.name):
            return True
    return False


def _node_cache(objects: DNSObjects, zones: Sequence[str], addresses: Sequence[str], cluster_domain: str) -> str:
    stub_domains = data_of(configmap(objects, KUBE_DNS)).get(STUB_DOMAINS, "{}")
    for name, read_by_it in ((NODE_CACHE, stub_domains), (KUBESPRAY_CACHE, None)):
        text = data_of(configmap(objects, name)).get(COREFILE)
        if text is not None and (found := bypass(text, read_by_it, zones, addresses, cluster_domain)):
            return found
    return ""
