"""The stub domain, as the files for each kind of cluster DNS say it."""

import json
import re
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "coredns"
PAGES = sorted(FOLDER.glob("*.md"))
DATA = sorted({*FOLDER.iterdir()} - {*PAGES})
PLACEHOLDER = "NAMESERVER_IP"
BLOCK = """\
ts.net:53 {
    errors
    cache 30 {
        denial 9984 1
    }
    forward . NAMESERVER_IP
}
"""


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def test_the_folder_holds_data_and_words_only() -> None:
    assert {path.suffix for path in FOLDER.iterdir()} == {".conf", ".json", ".yaml", ".md"}


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.name)
def test_the_placeholder_stands_once_so_that_a_command_can_fill_it_in(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count(PLACEHOLDER) == 1


def test_the_corefiles_block_forwards_the_zone() -> None:
    assert without_comments(read("stub-domain.conf")) == BLOCK


def test_the_custom_configmap_holds_the_same_block_under_a_key_that_is_imported() -> None:
    configmap = yaml.safe_load(read("coredns-custom.yaml"))
    assert (configmap["apiVersion"], configmap["kind"]) == ("v1", "ConfigMap")
    assert configmap["metadata"] == {"name": "coredns-custom", "namespace": "kube-system"}
    assert configmap["data"] == {"tailnet.server": BLOCK}


def test_the_kube_dns_patch_says_the_zone_and_the_address_in_json_within_json() -> None:
    patch = json.loads(read("kube-dns-patch.json"))
    assert patch.keys() == {"data"}
    assert json.loads(patch["data"]["stubDomains"]) == {"ts.net": [PLACEHOLDER]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_name_files_that_exist(page: Path) -> None:
    for name in re.findall(r"\bcoredns/([\w-]+\.\w+)", page.read_text(encoding="utf-8")):
        assert (FOLDER / name).is_file()


def test_every_file_is_used_by_a_page() -> None:
    words = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [path.name for path in DATA if f"coredns/{path.name}" not in words] == []
    assert [page.name for page in PAGES if f"({page.name}" not in words and page.name != "README.md"] == []
