"""What people paste into the configuration of the cluster's DNS."""

import json
from pathlib import Path

import pytest
import yaml
from tsoperator.desired.clusterdns.edits import plan_removal
from tsoperator.desired.clusterdns.platforms import CUSTOM_KEY, Kind, Platform, find_platform
from tsoperator.desired.clusterdns.results import DNSObjects, StubDomain
from tsoperator.desired.clusterdns.snippets import snippet

from tests.operator.desired.clusterdns.objects import configmap

FOLDER = Path(__file__).parents[4] / "coredns"
STUB = StubDomain(("ts.net",), ("NAMESERVER_IP",))
COREDNS = configmap("coredns", Corefile=".:53 {\n    forward . 9.9.9.9\n    reload\n}\nimport custom/*.server\n")
KUBE_DNS = configmap("kube-dns")
OPENSHIFT = {"kind": "DNS", "metadata": {"name": "default"}, "spec": {}}
OBJECTS = DNSObjects([COREDNS, KUBE_DNS], OPENSHIFT)


def made_for(kind: Kind, stub: StubDomain = STUB) -> str:
    platform = find_platform(OBJECTS, kind)
    assert isinstance(platform, Platform)
    return snippet(platform, stub)


@pytest.mark.parametrize(
    ("kind", "name"), [(Kind.CORE_DNS, "stub-domain.conf"), (Kind.CORE_DNS_CUSTOM, "coredns-custom.yaml")]
)
def test_a_file_for_a_platform_is_its_snippet(kind: Kind, name: str) -> None:
    assert made_for(kind) == (FOLDER / name).read_text()


def test_the_patch_for_kube_dns_has_the_text_of_the_snippet() -> None:
    patch = json.loads((FOLDER / "kube-dns-patch.json").read_text())
    head, _, text = made_for(Kind.KUBE_DNS).partition("\n")
    assert (
        head == "# ConfigMap kube-system/kube-dns, key stubDomains: add this, or its entries to those that are there."
    )
    assert text == patch["data"]["stubDomains"] + "\n"


def test_the_snippet_for_openshift_is_a_server_for_its_list() -> None:
    text = made_for(Kind.OPENSHIFT, StubDomain(("ts.net", "example.org"), ("10.96.0.53", "fd00::53")))
    assert text.startswith("# DNS default, spec.servers: add this to the list.\n")
    upstreams = {"upstreams": ["10.96.0.53", "fd00::53"]}
    assert yaml.safe_load(text) == [{"name": "tailnet", "zones": ["ts.net", "example.org"], "forwardPlugin": upstreams}]


def test_a_snippet_listens_where_the_cluster_asks() -> None:
    objects = DNSObjects([configmap("coredns", Corefile=". {\n    bind eth0\n    forward . 9.9.9.9\n}\n")])
    platform = find_platform(objects)
    assert isinstance(platform, Platform)
    assert "\nts.net {\n    bind eth0\n" in snippet(platform, STUB)


def test_a_pasted_snippet_is_never_taken_out() -> None:
    pasted = [
        configmap("coredns", Corefile=COREDNS["data"]["Corefile"] + made_for(Kind.CORE_DNS)),
        configmap("coredns-custom", **{CUSTOM_KEY: yaml.safe_load(made_for(Kind.CORE_DNS_CUSTOM))["data"][CUSTOM_KEY]}),
        configmap("kube-dns", stubDomains=json.dumps(yaml.safe_load(made_for(Kind.KUBE_DNS)))),
    ]
    spec = {"servers": yaml.safe_load(made_for(Kind.OPENSHIFT))}
    assert plan_removal(DNSObjects(pasted, {**OPENSHIFT, "spec": spec})) == []
