"""What Helm prints when the chart has been installed."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.charts.rendered import Render
from tests.e2e.product import CHART

NOTES = """\
notes: |
{{ include "tailscale-operator/templates/NOTES.txt" . | indent 2 }}
"""


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our chart, which renders its notes, too."""
    chart = tmp_path_factory.mktemp("noted") / "chart"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "notes.yaml").write_text(NOTES)
    return chart


class Case(NamedTuple):
    sets: tuple[str, ...]
    unused: tuple[str, ...] = ()
    because: str = ""


VOLUME = "oauthSecretVolume.csi.driver=a"
CLIENT = ("oauth.clientId=a", "oauth.clientSecret=b")


@pytest.mark.parametrize(
    "case",
    [
        Case(()),
        Case(CLIENT),
        Case(("oauth.existingSecret=a",)),
        Case(("oauth.clientId=a", "oauth.audience=b")),
        Case((VOLUME, *CLIENT)),
        Case(("oauth.clientSecret=b",), ("clientSecret",), "oauth.clientId is empty: set both, or neither."),
        Case((*CLIENT, "oauth.audience=b"), ("clientSecret",), "oauth.audience asks for workload identity"),
        Case((*CLIENT, "oauth.existingSecret=b"), ("clientId", "clientSecret"), "oauth.existingSecret names a Secret"),
        Case((VOLUME, "oauth.existingSecret=b"), ("existingSecret",), "oauthSecretVolume has the credentials"),
    ],
    ids=str,
)
def test_credentials_that_have_no_effect_are_told(render: Render, noted: Path, case: Case) -> None:
    (notes,) = (obj["notes"] for obj in render(*case.sets, chart=noted) if "notes" in obj)
    told = [line for line in notes.splitlines() if " has no effect" in line]
    assert [line.split()[1] for line in told] == [f"oauth.{name}" for name in case.unused]
    assert all(f"because {case.because}" in line for line in told)
