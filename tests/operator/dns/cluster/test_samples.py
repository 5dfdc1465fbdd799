"""Samples of real clusters: the platform of their DNS, and an edit whose removal restores the original objects."""

import json
from typing import NamedTuple

import pytest
from tsoperator.dns.cluster.edits import plan_edit, plan_removal
from tsoperator.dns.cluster.openshift import server_name
from tsoperator.dns.cluster.platforms import Platform, PlatformKind, configmap
from tsoperator.dns.cluster.results import DNSObjects, Nothing, StubDomain
from tsoperator.dns.cluster.serverblock import BEGIN, END

from tests.operator.dns.cluster.objects import OWNER, SAMPLES, applied, platform_of, sample, stored

ZONE = "tail1234.ts.net"
STUB = StubDomain((ZONE,), ("10.96.0.53", "fd00::53"))
MOVED = StubDomain((ZONE, "tail5678.ts.net"), ("10.96.0.54",))
LINES = '"acme.local" : [\n    "1.2.3.4"\n  ],\n  "widget.local": ["2.2.2.2:10053",\n' + " " * 19 + '"3.3.3.3"]'
DOMAINS = '"acme.local": ["1.2.3.4"], "corp.example.org": ["10.20.0.2:5353", "10.20.0.3"]'
UPSTREAM = "asks __PILLAR__UPSTREAM__SERVERS__"


class Case(NamedTuple):
    kind: PlatformKind = PlatformKind.CORE_DNS
    opens: str = f"{ZONE}:53 {{"
    restart: bool = False
    node_cache: str = ""
    newline: str = "\n"
    final_newline: bool = True
    name: str = "coredns"


def kube_dns(before: str, after: str) -> Case:
    return Case(PlatformKind.KUBE_DNS, f'{before}"{ZONE}": ["10.96.0.53", "fd00::53"]{after}', name="kube-dns")


CUSTOM = Case(PlatformKind.CORE_DNS_CUSTOM, name="coredns-custom")
OPENSHIFT = Case(PlatformKind.OPENSHIFT, name="default")
CASES = {
    "aks": CUSTOM,
    "aks-custom": CUSTOM,
    "crlf": Case(newline="\r\n"),
    "crlf-no-end": Case(newline="\r\n", final_newline=False, restart=True),
    "digitalocean": CUSTOM,
    "eks": Case(),
    "eks-stub-domains": Case(),
    "external-names": Case(),
    "gardener": CUSTOM._replace(opens=f"{ZONE}:8053 {{"),
    "gke": kube_dns("{", "}"),
    "gke-consul": kube_dns("{", ', "consul":["10.0.12.34"]}'),
    "gke-crlf": kube_dns("\r\n{\r\n\t", ', "acme.local": ["1.2.3.4"]\r\n}\r\n'),
    "gke-empty": kube_dns(" {", "\n }\n"),
    "gke-lines": kube_dns("{\n  ", f', {LINES}\n}}\n'),
    "gke-node-cache": kube_dns("{ ", ', "acme.local": [ "1.2.3.4" ] }\n'),
    "gke-stub-domains": kube_dns("{", f", {DOMAINS}}}\n"),
    "helm-chart": Case(opens=f"{ZONE}:5353 {{"),
    "k3s": CUSTOM,
    "k3s-1.20": Case(),
    "k3s-1.22": CUSTOM,
    "k3s-custom": CUSTOM,
    "kind": Case(),
    "kops-node-cache": Case(),
    "kubeadm-1.11": Case(),
    "kubeadm-1.19": Case(),
    "kubeadm-1.31": Case(),
    "kubeadm-node-cache-stub": Case(),
    "kubespray": Case(node_cache='asks 203.0.113.1, 203.0.113.2. Add {"zones": ["tail1234.ts.net"], '),
    "lke": CUSTOM,
    "minikube": Case(),
    "openshift": OPENSHIFT,
    "openshift-servers": OPENSHIFT,
    "quoted": Case(),
    "rke2": Case(name="rke2-coredns-rke2-coredns", final_newline=False),
    "rke2-node-cache": Case(name="rke2-coredns-rke2-coredns", final_newline=False, node_cache=UPSTREAM),
    "scaleway": Case(),
    "snippets": Case(opens=f"{ZONE} {{\n    bind lo eth0"),
    "talos": Case(),
    "variables": Case(opens=f"{ZONE}:{{$DNS_PORT}} {{"),
    "without-reload": Case(restart=True),
}  # fmt: skip


def test_every_sample_of_a_cluster_has_a_row_in_the_table() -> None:
    assert {path.name for path in SAMPLES.iterdir() if path.is_dir()} == CASES.keys()


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES)
def test_the_platform_of_each_sample_is_recognized(name: str, case: Case) -> None:
    platform = platform_of(sample(name), zones=[ZONE])
    assert (platform.kind, platform.key.name, bool(platform.restart)) == (case.kind, case.name, case.restart)
    assert case.node_cache in platform.node_cache
    assert bool(platform.node_cache) is bool(case.node_cache)


def entry(objects: DNSObjects, platform: Platform) -> str:
    if platform.kind is PlatformKind.OPENSHIFT:
        return json.dumps((objects.openshift or {})["spec"].get("servers", []))
    found = configmap(objects, platform.key.name) or {}
    return str(found.get("data", {}).get(platform.entry, ""))


def expected(before: str, case: Case) -> str:
    if case.kind is PlatformKind.KUBE_DNS:
        return case.opens
    if case.kind is PlatformKind.OPENSHIFT:
        server = {"name": server_name(OWNER), "zones": [ZONE], "forwardPlugin": {"upstreams": [*STUB.addresses]}}
        return json.dumps([*json.loads(before), server])
    lines = [
        BEGIN,
        "# It belongs to the operator in namespace tailscale.",
        case.opens,
        "    errors\n    cache 30 {\n        denial 9984 1\n    }\n    forward . 10.96.0.53 fd00::53\n}",
        END,
    ]
    text = "\n".join([*lines, ""] if case.final_newline else ["", *lines])
    return before + text.replace("\n", case.newline)


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES)
def test_an_edit_adds_only_the_stub_domain_and_its_removal_restores_the_original(name: str, case: Case) -> None:
    before = sample(name)
    platform = platform_of(before)
    after = applied(before, [plan_edit(platform, before, STUB, OWNER)])
    assert plan_removal(before, OWNER) == []
    assert entry(after, platform) == expected(entry(before, platform), case)
    assert stored(applied(after, plan_removal(after, OWNER))) == stored(before)


@pytest.mark.parametrize("name", CASES)
def test_the_stub_domain_of_a_sample_stays_unchanged_until_its_address_changes(name: str) -> None:
    before = sample(name)
    platform = platform_of(before)
    after, moved = (applied(before, [plan_edit(platform, before, stub, OWNER)]) for stub in (STUB, MOVED))
    assert platform_of(after) == platform
    assert plan_edit(platform, after, STUB, OWNER) == Nothing(platform.restart)
    assert plan_removal(after, OWNER, keep=platform) == []
    assert applied(after, [plan_edit(platform, after, MOVED, OWNER)]) == moved
