"""Tests of the Kubernetes Job: dnsload accepts the Job's command line."""

from pathlib import Path
from typing import Any

import dnsload
import yaml
from dnsload.settings import Settings, read_settings
from tsnameserver.records import CONFIGMAP_NAME, MAX_SHARDS, RECORDS_KEY


def pod() -> Any:
    return yaml.safe_load((Path(dnsload.__file__).parent / "job.yaml").read_text())["spec"]["template"]["spec"]


def settings(**environment: str) -> Settings:
    (container,) = pod()["containers"]
    values = {each["name"]: each["value"] for each in container["env"]} | environment
    arguments = container["args"]
    for name, value in values.items():
        arguments = [argument.replace(f"$({name})", value) for argument in arguments]
    return read_settings(arguments)


def test_dnsload_accepts_the_arguments_of_the_documented_kubernetes_job() -> None:
    read = settings(TARGET="192.0.2.10:53", RATE="1..5000", DURATION="24h")
    assert (str(read.targets[0]), read.form.recursion_desired) == ("192.0.2.10:53", True)
    assert read.speed.seconds == 24 * 3600
    (mount,) = pod()["containers"][0]["volumeMounts"]
    assert read.records == (Path(mount["mountPath"]),)


def test_the_documented_kubernetes_job_mounts_every_shard_that_the_records_can_have() -> None:
    (volume,) = pod()["volumes"]
    first, *others = (source["configMap"] for source in volume["projected"]["sources"])
    assert first == {"name": CONFIGMAP_NAME, "items": [{"key": RECORDS_KEY, "path": RECORDS_KEY}]}
    assert (volume["name"], len(others)) == (pod()["containers"][0]["volumeMounts"][0]["name"], MAX_SHARDS - 1)
    for shard, source in enumerate(others, 1):
        items = [{"key": RECORDS_KEY, "path": f"records-{shard}.json"}]
        assert source == {"name": f"{CONFIGMAP_NAME}-{shard}", "optional": True, "items": items}
