"""What the cluster's DNS is, by its objects or by what the DNSConfig says."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import CONFIGMAP, Key, Object
from tsoperator.desired.clusterdns.platforms import OPENSHIFT_DNS, Kind, Platform, find_platform
from tsoperator.desired.clusterdns.results import DNSObjects, Refusal
from tsoperator.desired.clusterdns.serverblock import Listening

from tests.operator.desired.clusterdns.objects import configmap

ROOT = ".:8053 {\n    forward . 9.9.9.9\n    reload\n}\n"
PLAIN = configmap("coredns", Corefile=ROOT)
IMPORTING = configmap("coredns", Corefile=ROOT + "import custom/*.server\n")
CUSTOM = configmap("coredns-custom")
KUBE_DNS = configmap("kube-dns")
OPENSHIFT: Object = {"kind": "DNS", "metadata": {"name": "default"}, "spec": {}}
AT = Listening(("8053",))

IN_COREFILE = Platform(Kind.CORE_DNS, CONFIGMAP, Key("kube-system", "coredns"), "Corefile", AT)
IN_CUSTOM = Platform(Kind.CORE_DNS_CUSTOM, CONFIGMAP, Key("kube-system", "coredns-custom"), "tailnet.server", AT)
IN_KUBE_DNS = Platform(Kind.KUBE_DNS, CONFIGMAP, Key("kube-system", "kube-dns"), "stubDomains")
IN_OPENSHIFT = Platform(Kind.OPENSHIFT, OPENSHIFT_DNS, Key("", "default"), "spec.servers")


class Case(NamedTuple):
    objects: list[Object]
    expected: Platform
    wanted: str | None = None
    openshift: Object | None = None


CASES = {
    "CoreDNS": Case([PLAIN], IN_COREFILE),
    "CoreDNS beside kube-dns's ConfigMap": Case([KUBE_DNS, PLAIN], IN_COREFILE),
    "CoreDNS with a custom ConfigMap that it doesn't import": Case([CUSTOM, PLAIN], IN_COREFILE),
    "CoreDNS, though it imports": Case([IMPORTING, CUSTOM], IN_COREFILE, "CoreDNS"),
    "a custom ConfigMap": Case([IMPORTING, CUSTOM], IN_CUSTOM),
    "a custom ConfigMap that isn't there yet": Case([IMPORTING], IN_CUSTOM),
    "a custom ConfigMap, as said": Case([IMPORTING], IN_CUSTOM, "CoreDNSCustom"),
    "kube-dns": Case([KUBE_DNS], IN_KUBE_DNS),
    "kube-dns, as said": Case([PLAIN, KUBE_DNS], IN_KUBE_DNS, "KubeDNS"),
    "OpenShift": Case([PLAIN, KUBE_DNS], IN_OPENSHIFT, None, OPENSHIFT),
    "not OpenShift, as said": Case([PLAIN], IN_COREFILE, "CoreDNS", OPENSHIFT),
    "OpenShift, as said": Case([PLAIN], IN_OPENSHIFT, "OpenShift", OPENSHIFT),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_platform_is_found(case: Case) -> None:
    assert find_platform(DNSObjects(case.objects, case.openshift), case.wanted) == case.expected


IMPORTS = {
    "import custom/*.server": True,
    "import /etc/coredns/custom/*.server": True,
    "import custom/*": True,
    "import custom/tailnet.server": True,
    "import custom/*.override": False,
    "import custom/*.conf": False,
    "import zones/*.server": False,
    ".:54 {\n import custom/*.server\n}": False,
    "# import custom/*.server": False,
}


@pytest.mark.parametrize(("line", "expected"), IMPORTS.items())
def test_a_corefile_imports_our_key_or_not(line: str, expected: bool) -> None:
    platform = find_platform(DNSObjects([configmap("coredns", Corefile=f"{ROOT}{line}\n")]))
    assert isinstance(platform, Platform)
    assert (platform.kind is Kind.CORE_DNS_CUSTOM) is expected


def test_another_folder_may_be_the_custom_configmap_if_that_is_there() -> None:
    objects = [configmap("coredns", Corefile=f"{ROOT}import zones/*.server\n"), CUSTOM]
    assert find_platform(DNSObjects(objects)) == IN_CUSTOM


RESTART = "CoreDNS has no reload plugin, so restart it: kubectl -n kube-system rollout restart deployment coredns"
SILENT = ROOT.replace("    reload\n", "    import custom/*.override\n")
RELOADS = {
    "in the block": (ROOT, {}, ""),
    "nowhere": (SILENT, {}, RESTART),
    "in an override": (SILENT, {"a.override": "log\nreload 5s\n"}, ""),
    "in a file that isn't imported": (SILENT, {"a.server": "reload\n"}, RESTART),
    "in an override that can't be read": (SILENT, {"a.override": "reload {\n"}, RESTART),
}


@pytest.mark.parametrize(("corefile", "custom", "expected"), RELOADS.values(), ids=RELOADS)
def test_coredns_reloads_by_itself_or_has_to_be_restarted(corefile: str, custom: dict[str, str], expected: str) -> None:
    platform = find_platform(
        DNSObjects([configmap("coredns", Corefile=corefile), configmap("coredns-custom", **custom)])
    )
    assert isinstance(platform, Platform)
    assert platform.restart == expected


def test_rke2s_coredns_has_a_name_of_its_own() -> None:
    platform = find_platform(DNSObjects([configmap("rke2-coredns-rke2-coredns", Corefile=SILENT)]))
    assert isinstance(platform, Platform)
    assert platform.where == "ConfigMap kube-system/rke2-coredns-rke2-coredns, key Corefile"
    assert platform.restart.endswith(" rollout restart deployment rke2-coredns-rke2-coredns")


@pytest.mark.parametrize("name", ["node-local-dns", "nodelocaldns"])
def test_a_node_cache_is_told_of_with_coredns_only(name: str) -> None:
    cache = configmap(name, Corefile=".:53 {\n forward . 9.9.9.9\n}\n")
    objects = DNSObjects([PLAIN, KUBE_DNS, cache])
    platforms = [find_platform(objects, kind, ["ts.net"]) for kind in ("CoreDNS", "KubeDNS")]
    said = [bool(platform.node_cache) for platform in platforms if isinstance(platform, Platform)]
    assert said == [True, False]


class Bad(NamedTuple):
    objects: list[Object]
    reason: str
    message: str
    wanted: str | None = None


SAID = "spec.clusterDNS.platform is "
CURE = ": correct the platform, or leave it out"
BAD = {
    "no objects": Bad(
        [],
        "PlatformUnknown",
        "the cluster's DNS isn't known: kube-system has none of the ConfigMaps coredns, rke2-coredns-rke2-coredns, "
        "kube-dns; write the stub domain into your DNS yourself, or set spec.clusterDNS.platform",
    ),
    "another namespace": Bad([{**PLAIN, "metadata": {"namespace": "x", "name": "coredns"}}], "PlatformUnknown", ""),
    "no Corefile": Bad(
        [configmap("coredns")],
        "CorefileMissing",
        "ConfigMap kube-system/coredns, key Corefile, isn't there: put it back",
    ),
    "a broken Corefile": Bad(
        [configmap("coredns", Corefile=". {\n")], "CorefileUnreadable", "line 1: the server block"
    ),
    "not CoreDNS": Bad(
        [KUBE_DNS],
        "PlatformMissing",
        f"{SAID}CoreDNS, but kube-system has no ConfigMap coredns or rke2-coredns-rke2-coredns{CURE}",
        "CoreDNS",
    ),
    "no import": Bad(
        [PLAIN, CUSTOM],
        "PlatformMissing",
        f"{SAID}CoreDNSCustom, but ConfigMap kube-system/coredns, key Corefile, imports no *.server files outside "
        f"of its server blocks{CURE}",
        "CoreDNSCustom",
    ),
    "not kube-dns": Bad(
        [PLAIN], "PlatformMissing", f"{SAID}KubeDNS, but ConfigMap kube-system/kube-dns isn't there{CURE}", "KubeDNS"
    ),
    "not OpenShift": Bad(
        [PLAIN],
        "PlatformMissing",
        f"{SAID}OpenShift, but DNS default of operator.openshift.io isn't there{CURE}",
        "OpenShift",
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_platform_that_isnt_there_is_a_reason_with_the_cure(bad: Bad) -> None:
    refusal = find_platform(DNSObjects(bad.objects), bad.wanted)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == bad.reason
    assert bad.message in refusal.message
