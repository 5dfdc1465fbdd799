"""The text that people paste into the configuration of the cluster's DNS.

The pages show the same text as the operator.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tsoperator.dns.cluster.edits import plan_removal
from tsoperator.dns.cluster.platforms import CUSTOM_KEY, PlatformKind
from tsoperator.dns.cluster.results import DNSObjects, StubDomain
from tsoperator.dns.cluster.snippets import snippet
from tsoperator.tailnet.zones import Suffixes, stub_zones

from tests.docs.pages import PAGES, ROOT, fences, name_of
from tests.operator.dns.cluster.objects import OPENSHIFT, OWNER, configmap, platform_of

DOMAIN, ADDRESS = "tail1234.ts.net", "10.96.21.68"
STUB = StubDomain((DOMAIN,), (ADDRESS,))
COREDNS = configmap("coredns", Corefile=".:53 {\n    forward . 9.9.9.9\n    reload\n}\nimport custom/*.server\n")
KUBE_DNS = configmap("kube-dns")
OBJECTS = DNSObjects([COREDNS, KUBE_DNS], OPENSHIFT)
FILLED = re.compile(r'sed "[^"]+" coredns/[\w.-]+')
KINDS = {"conf": PlatformKind.CORE_DNS, "yaml": PlatformKind.CORE_DNS_CUSTOM, "json": PlatformKind.KUBE_DNS}
"""A map from the end of the name of each file in coredns/ to the platform for which the file is."""


def made_for(kind: PlatformKind, stub: StubDomain = STUB) -> str:
    return snippet(platform_of(OBJECTS, kind), stub)


def filled(page: Path) -> list[str]:
    """Return the commands of *page* that fill in a file for the cluster's DNS."""
    return [command for kind, body in fences(page) if kind == "sh" for command in FILLED.findall(body)]


def stub_domains_of(text: str) -> Any:
    """Return the stub domains in a patch of kube-dns, or in the operator's snippet, which begins with a comment."""
    found = yaml.safe_load(text)
    return json.loads(found["data"]["stubDomains"]) if "data" in found else found


@pytest.mark.parametrize("page", [page for page in PAGES if filled(page)], ids=name_of)
def test_a_command_of_a_page_prints_the_stub_domain_that_the_operator_shows(page: Path) -> None:
    for command in filled(page):
        script = f"domain={DOMAIN} ip={ADDRESS}; {command}"
        said = subprocess.run(["sh", "-euc", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        kind = KINDS[command.rpartition(".")[2]]
        if kind is PlatformKind.KUBE_DNS:
            assert stub_domains_of(said) == stub_domains_of(made_for(kind))
        else:
            assert said == made_for(kind)


def test_the_page_for_openshift_shows_the_same_server_as_the_operator() -> None:
    (text,) = (body for kind, body in fences(ROOT / "coredns" / "openshift.md") if not kind)
    shown = text.replace("TAILNET_DOMAIN", DOMAIN).replace("NAMESERVER_IP", ADDRESS)
    assert yaml.safe_load(shown)["servers"] == yaml.safe_load(made_for(PlatformKind.OPENSHIFT))


def test_the_page_about_names_shows_the_same_server_block_as_the_operator() -> None:
    assert made_for(PlatformKind.CORE_DNS) in {body for _, body in fences(ROOT / "docs" / "dns.md")}


def test_no_page_and_no_picture_shows_a_stub_domain_for_all_of_ts_net() -> None:
    assert stub_zones((), Suffixes((DOMAIN,), complete=True)) == (DOMAIN,)
    shown = {name_of(page): body for page in PAGES for kind, body in fences(page) if kind != "json"}
    pictures = {name_of(path): path.read_text() for path in (ROOT / "docs" / "pictures").glob("*.txt")}
    bare = re.compile(r"(?<![\w.>-])ts\.net\b")
    assert [name for name, text in (shown | pictures).items() if bare.search(text)] == []


def test_the_snippet_for_openshift_has_one_item_for_the_list_of_servers() -> None:
    text = made_for(PlatformKind.OPENSHIFT, StubDomain(("ts.net", "example.org"), ("10.96.0.53", "fd00::53")))
    assert text.startswith("# DNS default, spec.servers: add this to the list.\n")
    upstreams = {"upstreams": ["10.96.0.53", "fd00::53"]}
    assert yaml.safe_load(text) == [{"name": "tailnet", "zones": ["ts.net", "example.org"], "forwardPlugin": upstreams}]


def test_a_snippet_has_the_ports_and_the_bind_plugin_of_the_corefile() -> None:
    objects = DNSObjects([configmap("coredns", Corefile=". {\n    bind eth0\n    forward . 9.9.9.9\n}\n")])
    assert f"\n{DOMAIN} {{\n    bind eth0\n" in snippet(platform_of(objects), STUB)


def test_the_operator_never_removes_a_pasted_snippet() -> None:
    pasted = [
        configmap("coredns", Corefile=COREDNS["data"]["Corefile"] + made_for(PlatformKind.CORE_DNS)),
        configmap(
            "coredns-custom", **{CUSTOM_KEY: yaml.safe_load(made_for(PlatformKind.CORE_DNS_CUSTOM))["data"][CUSTOM_KEY]}
        ),
        configmap("kube-dns", stubDomains=json.dumps(yaml.safe_load(made_for(PlatformKind.KUBE_DNS)))),
    ]
    spec = {"servers": yaml.safe_load(made_for(PlatformKind.OPENSHIFT))}
    assert plan_removal(DNSObjects(pasted, {**OPENSHIFT, "spec": spec}), OWNER) == []
