from pathlib import Path

import pytest
from clustersim.apiclient import ApiClient
from clustersim.demo_checks import exposed
from clustersim.demo_stage import EXAMPLES, apply_examples
from clustersim.sim import cluster_sim


async def test_every_example_is_accepted() -> None:
    async with cluster_sim() as sim, ApiClient(sim.api_url) as api:
        objects = await apply_examples(api)
        assert all(obj["metadata"]["uid"] for obj in objects)
        assert [str(target) for target in exposed(objects)] == [
            "service/db", "service/printer", "ingress/shop", "ingress/web",
        ]  # fmt: skip


async def test_a_folder_without_examples_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clustersim.demo_stage.EXAMPLES", tmp_path)
    async with ApiClient("http://127.0.0.1:1") as api:
        with pytest.raises(FileNotFoundError, match="no examples"):
            await apply_examples(api)


def test_every_example_says_what_it_does() -> None:
    assert all(path.read_text().startswith("# ") for path in EXAMPLES.glob("*.yaml"))
