"""The chart that is released names the images that are."""

from pathlib import Path

import pytest
import yaml
from release import chart
from release.__main__ import version_of
from release.chart import Chart, NotReleasable
from release.images import Place
from release.statements import build_from

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "tailscale-operator"
VALUES, ABOUT = ((CHART / name).read_text() for name in ("values.yaml", "Chart.yaml"))


def test_both_images_are_named_where_they_were_pushed() -> None:
    values, about = map(yaml.safe_load, chart.released(VALUES, ABOUT, "example.org/a"))
    config = values["operatorConfig"]
    assert config["image"]["repository"] == "example.org/a/tsoperator"
    assert config["nameserverImage"]["repository"] == "example.org/a/tsnameserver"
    assert values["proxyConfig"] == yaml.safe_load(VALUES)["proxyConfig"]
    assert about == {**yaml.safe_load(ABOUT), "annotations": {"images": "example.org/a"}}


@pytest.mark.parametrize(
    ("values", "about"),
    [(VALUES.replace(" tsoperator", " mine"), ABOUT), (VALUES, ABOUT.replace("images:", "pictures:"))],
)
def test_a_chart_that_names_other_images_is_not_released(values: str, about: str) -> None:
    with pytest.raises(NotReleasable, match="has to name the images"):
        chart.released(values, about, "example.org/a")


def test_a_chart_of_another_version_is_not_released(tmp_path: Path) -> None:
    nothing = Path("/nonexistent")
    with pytest.raises(NotReleasable, match=r"\['0.1.0', '0.1.0'\], those of the images 0.2.0"):
        chart.release(
            Chart(CHART, nothing), "0.2.0", {}, Place("example.org", nothing), build_from({}, "", True, ""), tmp_path
        )


def test_the_version_is_that_of_the_sources() -> None:
    assert version_of(ROOT) == yaml.safe_load(ABOUT)["version"]
