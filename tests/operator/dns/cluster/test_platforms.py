"""The platform of the cluster's DNS, which the cluster's objects show, or which the DNSConfig names."""

from dataclasses import replace

import pytest
from tsoperator.api.objects import CONFIGMAP, Key, Object
from tsoperator.dns.cluster.platforms import OPENSHIFT_DNS, Platform, PlatformKind, find_platform
from tsoperator.dns.cluster.results import DNSObjects
from tsoperator.dns.cluster.serverblock import Listening
from tsoperator.runtime.plan import Refusal

from tests.operator.dns.cluster.objects import CONF, OPENSHIFT, configmap, platform_of, workload

ROOT = ".:8053 {\n    forward . 9.9.9.9\n    reload\n}\n"
PLAIN = configmap("coredns", Corefile=ROOT)
IMPORTING = configmap("coredns", Corefile=ROOT + "import custom/*.server\n")
CUSTOM = configmap("coredns-custom")
KUBE_DNS = configmap("kube-dns")
AT = Listening(("8053",))

IN_COREFILE = Platform(PlatformKind.CORE_DNS, CONFIGMAP, Key("kube-system", "coredns"), "Corefile", AT)
IN_CUSTOM = Platform(
    PlatformKind.CORE_DNS_CUSTOM, CONFIGMAP, Key("kube-system", "coredns-custom"), "tailnet.server", AT
)
IN_KUBE_DNS = Platform(PlatformKind.KUBE_DNS, CONFIGMAP, Key("kube-system", "kube-dns"), "stubDomains")
IN_OPENSHIFT = Platform(PlatformKind.OPENSHIFT, OPENSHIFT_DNS, Key("", "default"), "spec.servers")

CASES: dict[str, tuple[list[Object], Platform, str | None, Object | None]] = {
    "CoreDNS": ([PLAIN], IN_COREFILE, None, None),
    "CoreDNS beside kube-dns's ConfigMap": ([KUBE_DNS, PLAIN], IN_COREFILE, None, None),
    "CoreDNS with a custom ConfigMap that it doesn't import": ([CUSTOM, PLAIN], IN_COREFILE, None, None),
    "CoreDNS, though it imports": ([IMPORTING, CUSTOM], IN_COREFILE, "CoreDNS", None),
    "a custom ConfigMap": ([IMPORTING, CUSTOM], IN_CUSTOM, None, None),
    "a custom ConfigMap that isn't there yet": ([IMPORTING], IN_CUSTOM, None, None),
    "a custom ConfigMap, as said": ([IMPORTING], IN_CUSTOM, "CoreDNSCustom", None),
    "kube-dns": ([KUBE_DNS], IN_KUBE_DNS, None, None),
    "kube-dns, as said": ([PLAIN, KUBE_DNS], IN_KUBE_DNS, "KubeDNS", None),
    "OpenShift": ([PLAIN, KUBE_DNS], IN_OPENSHIFT, None, OPENSHIFT),
    "not OpenShift, as said": ([PLAIN], IN_COREFILE, "CoreDNS", OPENSHIFT),
    "OpenShift, as said": ([PLAIN], IN_OPENSHIFT, "OpenShift", OPENSHIFT),
}


@pytest.mark.parametrize(("objects", "expected", "wanted", "openshift"), CASES.values(), ids=CASES)
def test_the_platform_follows_from_the_objects_in_the_cluster(
    objects: list[Object], expected: Platform, wanted: str | None, openshift: Object | None
) -> None:
    assert find_platform(DNSObjects(objects, openshift), wanted) == expected


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


def test_a_corefile_shows_a_platform_with_a_custom_configmap_only_if_it_imports_the_operators_file() -> None:
    found = {line: DNSObjects([configmap("coredns", Corefile=f"{ROOT}{line}\n")]) for line in IMPORTS}
    assert {
        line: platform_of(objects).kind is PlatformKind.CORE_DNS_CUSTOM for line, objects in found.items()
    } == IMPORTS


def test_an_import_from_an_unusual_folder_counts_as_that_of_the_custom_configmap_if_this_configmap_exists() -> None:
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
def test_coredns_with_automatic_reload_is_distinguished_from_coredns_without_it(
    corefile: str, custom: dict[str, str], expected: str
) -> None:
    objects = DNSObjects([configmap("coredns", Corefile=corefile), configmap("coredns-custom", **custom)])
    assert platform_of(objects).restart == expected


def test_the_coredns_of_rke2_is_recognized_although_its_objects_have_other_names() -> None:
    platform = platform_of(DNSObjects([configmap("rke2-coredns-rke2-coredns", Corefile=SILENT)]))
    assert platform.where == "ConfigMap kube-system/rke2-coredns-rke2-coredns, key Corefile"
    assert platform.restart.endswith(" rollout restart deployment rke2-coredns-rke2-coredns")


@pytest.mark.parametrize("name", ["node-local-dns", "nodelocaldns"])
def test_a_node_cache_is_reported_only_beside_coredns(name: str) -> None:
    cache = configmap(name, Corefile=".:53 {\n forward . 9.9.9.9\n}\n")
    objects = DNSObjects([PLAIN, KUBE_DNS, cache])
    said = [bool(platform_of(objects, kind, ["ts.net"]).node_cache) for kind in ("CoreDNS", "KubeDNS")]
    assert said == [True, False]


BASE = configmap("dns-base", Corefile=ROOT)
MOUNTED = {
    "the first argument": workload("dns-base", "coredns-custom"),
    "of a DaemonSet": workload("dns-base", kind="DaemonSet"),
    "in one word": workload("dns-base", arguments=[f"-conf={CONF}"]),
    "where CoreDNS looks by itself": workload("dns-base", arguments=[]),
}


@pytest.mark.parametrize("coredns", MOUNTED.values(), ids=MOUNTED)
def test_the_corefile_is_in_the_configmap_that_the_pods_of_coredns_mount(coredns: Object) -> None:
    platform = platform_of(DNSObjects([PLAIN, BASE], workloads=[coredns]))
    assert platform.key == Key("kube-system", "dns-base")


@pytest.mark.parametrize("coredns", [workload(), workload("dns-base", arguments=["-conf", "/x/Corefile"])])
def test_without_a_mount_the_corefile_is_in_the_usual_configmap(coredns: Object) -> None:
    objects = DNSObjects([BASE, PLAIN], workloads=[coredns])
    assert platform_of(objects) == IN_COREFILE
    assert platform_of(replace(objects, corefile="dns-base")).key.name == "dns-base"


@pytest.mark.parametrize("wanted", [None, "CoreDNS"])
def test_the_message_about_a_forbidden_configmap_names_the_chart_value_that_helps(
    wanted: str | None,
) -> None:
    refusal = find_platform(DNSObjects([PLAIN, KUBE_DNS], workloads=[workload("dns-base")]), wanted)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "NotPermitted"
    assert "set operatorConfig.clusterDNSConfigMap of the chart to dns-base" in refusal.message
    gone = find_platform(DNSObjects([KUBE_DNS], workloads=[workload("coredns")]))
    assert gone == Refusal("ConfigMap kube-system/coredns, key Corefile, isn't there: put it back", "CorefileMissing")


def test_the_suggested_restart_command_names_the_workload_that_runs_coredns() -> None:
    silent = configmap("coredns-base", Corefile=SILENT)
    objects = DNSObjects([silent], workloads=[workload("coredns-base", kind="DaemonSet")])
    assert platform_of(objects).restart.endswith(" rollout restart daemonset coredns")


SAID = "spec.clusterDNS.platform is "
CURE = ": correct the platform, or leave it out"
BAD = {
    "CoreDNS": f"{SAID}CoreDNS, but kube-system has no ConfigMap coredns or coredns-base or "
    f"rke2-coredns-rke2-coredns{CURE}",
    "CoreDNSCustom": f"{SAID}CoreDNSCustom, but ConfigMap kube-system/coredns, key Corefile, imports no *.server files "
    f"outside of its server blocks{CURE}",
    "KubeDNS": f"{SAID}KubeDNS, but ConfigMap kube-system/kube-dns isn't there{CURE}",
    "OpenShift": f"{SAID}OpenShift, but DNS default of operator.openshift.io isn't there{CURE}",
}


@pytest.mark.parametrize(("wanted", "message"), BAD.items())
def test_a_requested_platform_that_is_missing_is_a_refusal_with_the_cure(wanted: str, message: str) -> None:
    objects = [KUBE_DNS] if wanted == "CoreDNS" else [PLAIN, CUSTOM]
    assert find_platform(DNSObjects(objects), wanted) == Refusal(message, "PlatformMissing")


UNKNOWN = (
    "the cluster's DNS isn't known: the operator sees none of the ConfigMaps coredns, coredns-base, "
    "rke2-coredns-rke2-coredns, kube-dns in kube-system. If CoreDNS reads its Corefile from another ConfigMap there, "
    "set operatorConfig.clusterDNSConfigMap of the chart to its name. Otherwise write the stub domain into your DNS "
    "yourself, and set spec.clusterDNS.mode to Manual"
)
MISSING = "ConfigMap kube-system/coredns, key Corefile, isn't there: put it back"


@pytest.mark.parametrize(
    ("found", "reason", "message"),
    [
        ([], "PlatformUnknown", UNKNOWN),
        ([{**PLAIN, "metadata": {"namespace": "x", "name": "coredns"}}], "PlatformUnknown", UNKNOWN),
        ([configmap("coredns")], "CorefileMissing", MISSING),
        ([configmap("coredns", Corefile=". {\n")], "CorefileUnreadable", "line 1: the server block"),
    ],
)
def test_an_unknown_dns_of_the_cluster_or_a_missing_or_invalid_corefile_causes_a_refusal(
    found: list[Object], reason: str, message: str
) -> None:
    refusal = find_platform(DNSObjects(found))
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason
    assert message in refusal.message
