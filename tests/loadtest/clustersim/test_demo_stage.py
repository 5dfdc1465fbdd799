from pathlib import Path

import pytest
from clustersim.apiclient import ApiClient
from clustersim.demo_checks import exposed
from clustersim.demo_devices import shown
from clustersim.demo_stage import EXAMPLES, apply_examples, example_objects
from clustersim.sim import cluster_sim


async def test_every_example_is_accepted() -> None:
    async with cluster_sim() as sim, ApiClient(sim.api_url) as api:
        objects = await apply_examples(api)
        assert all(obj["metadata"]["uid"] for obj in objects)
        assert [str(target) for target in exposed(objects)] == [
            "service/db", "service/directory by proxygroup/egress", "service/printer", "ingress/shop", "ingress/web",
            "service/orders",
        ]  # fmt: skip
        assert [str(target) for target in shown(objects)] == [
            "service/cloud-db", "service/stock", "service/front", "service/orders",
            "connector/devnet", "connector/exit", "connector/apps",
        ]  # fmt: skip


def test_a_folder_without_examples_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no examples"):
        example_objects(tmp_path)


def test_every_example_says_what_it_does() -> None:
    assert all(path.read_text().startswith("# ") for path in EXAMPLES.glob("*.yaml"))
