"""What people paste into the configuration of the cluster's DNS."""

import json
from pathlib import Path

import yaml
from tsoperator.desired.clusterdns.edits import plan_removal
from tsoperator.desired.clusterdns.platforms import CUSTOM_KEY, Kind
from tsoperator.desired.clusterdns.results import DNSObjects, StubDomain
from tsoperator.desired.clusterdns.snippets import snippet

from tests.operator.desired.clusterdns.objects import OPENSHIFT, OWNER, configmap, platform_of

FOLDER = Path(__file__).parents[4] / "coredns"
STUB = StubDomain(("ts.net",), ("NAMESERVER_IP",))
COREDNS = configmap("coredns", Corefile=".:53 {\n    forward . 9.9.9.9\n    reload\n}\nimport custom/*.server\n")
KUBE_DNS = configmap("kube-dns")
OBJECTS = DNSObjects([COREDNS, KUBE_DNS], OPENSHIFT)


def made_for(kind: Kind, stub: StubDomain = STUB) -> str:
    return snippet(platform_of(OBJECTS, kind), stub)


def test_a_file_for_a_platform_is_its_snippet() -> None:
    assert made_for(Kind.CORE_DNS) == (FOLDER / "stub-domain.conf").read_text()
    assert made_for(Kind.CORE_DNS_CUSTOM) == (FOLDER / "coredns-custom.yaml").read_text()
    domains = json.loads((FOLDER / "kube-dns-patch.json").read_text())["data"]["stubDomains"]
    head = "# ConfigMap kube-system/kube-dns, key stubDomains: add this, or its entries to those that are there."
    assert made_for(Kind.KUBE_DNS) == f"{head}\n{domains}\n"


def test_the_snippet_for_openshift_is_a_server_for_its_list() -> None:
    text = made_for(Kind.OPENSHIFT, StubDomain(("ts.net", "example.org"), ("10.96.0.53", "fd00::53")))
    assert text.startswith("# DNS default, spec.servers: add this to the list.\n")
    upstreams = {"upstreams": ["10.96.0.53", "fd00::53"]}
    assert yaml.safe_load(text) == [{"name": "tailnet", "zones": ["ts.net", "example.org"], "forwardPlugin": upstreams}]


def test_a_snippet_listens_where_the_cluster_asks() -> None:
    objects = DNSObjects([configmap("coredns", Corefile=". {\n    bind eth0\n    forward . 9.9.9.9\n}\n")])
    assert "\nts.net {\n    bind eth0\n" in snippet(platform_of(objects), STUB)


def test_a_pasted_snippet_is_never_taken_out() -> None:
    pasted = [
        configmap("coredns", Corefile=COREDNS["data"]["Corefile"] + made_for(Kind.CORE_DNS)),
        configmap("coredns-custom", **{CUSTOM_KEY: yaml.safe_load(made_for(Kind.CORE_DNS_CUSTOM))["data"][CUSTOM_KEY]}),
        configmap("kube-dns", stubDomains=json.dumps(yaml.safe_load(made_for(Kind.KUBE_DNS)))),
    ]
    spec = {"servers": yaml.safe_load(made_for(Kind.OPENSHIFT))}
    assert plan_removal(DNSObjects(pasted, {**OPENSHIFT, "spec": spec}), OWNER) == []
