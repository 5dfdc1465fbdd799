"""The workflow that releases does what `make images` does."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / ".github" / "workflows" / "release.yml").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def test_what_the_workflow_runs_is_in_the_makefile() -> None:
    (target, given) = re.findall(r"run: make (\S+) (.*)", TEXT)[0]
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    for variable in re.findall(r"([A-Z]+)=", given):
        assert f"$({variable})" in MAKEFILE


def test_the_registry_is_said_in_one_place() -> None:
    workflow = yaml.safe_load(TEXT)
    assert workflow["env"].keys() == {"REGISTRY"}
    assert len(re.findall("ghcr.io/", TEXT)) == 1


def test_all_that_is_pushed_is_signed() -> None:
    steps = yaml.safe_load(TEXT)["jobs"]["release"]["steps"]
    signed = [each["with"]["subject-name"] for each in steps if "attest" in each.get("uses", "")]
    names = ("tsoperator", "tsnameserver", "charts/tailscale-operator")
    assert signed == [f"${{{{ env.REGISTRY }}}}/{name}" for name in names]
