"""The files in coredns/ that configure the stub domain, one for each kind of cluster DNS."""

import json
import re
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "coredns"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
DATA = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir() if path.name not in PAGES}
PLACEHOLDERS = ("TAILNET_DOMAIN", "NAMESERVER_IP")
BLOCK = """\
TAILNET_DOMAIN:53 {
    errors
    cache 30 {
        denial 9984 1
    }
    forward . NAMESERVER_IP
}
"""


def test_each_file_that_configures_a_stub_domain_has_each_placeholder_once() -> None:
    assert {Path(name).suffix for name in DATA} == {".conf", ".json", ".yaml"}
    counts = {(name, each): text.count(each) for name, text in DATA.items() for each in PLACEHOLDERS}
    assert counts == dict.fromkeys(counts, 1)


def test_the_block_for_the_corefile_forwards_the_zone() -> None:
    lines = DATA["stub-domain.conf"].splitlines(keepends=True)
    assert "".join(line for line in lines if not line.startswith("#")) == BLOCK


def test_the_configmap_coredns_custom_has_the_block_of_the_corefile_under_a_key_that_coredns_imports() -> None:
    assert yaml.safe_load(DATA["coredns-custom.yaml"]) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "coredns-custom", "namespace": "kube-system"},
        "data": {"tailnet.server": BLOCK},
    }


def test_the_kube_dns_patch_has_the_zone_and_the_address_in_nested_json() -> None:
    patch = json.loads(DATA["kube-dns-patch.json"])
    assert patch.keys() == {"data"}
    assert json.loads(patch["data"]["stubDomains"]) == {"TAILNET_DOMAIN": ["NAMESERVER_IP"]}


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_on_the_pages_about_coredns_name_existing_files(page: str) -> None:
    assert {*re.findall(r"\bcoredns/([\w-]+\.\w+)", PAGES[page])} <= {*PAGES, *DATA}


def test_a_page_about_coredns_mentions_each_configuration_file_and_the_readme_links_each_page() -> None:
    words = "".join(PAGES.values())
    assert [name for name in DATA if f"coredns/{name}" not in words] == []
    assert [name for name in PAGES if f"({name}" not in words and name != "README.md"] == []
