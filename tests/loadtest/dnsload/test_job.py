"""Tests of the Kubernetes Job: its command line is one that dnsload reads."""

from pathlib import Path
from typing import Any

import dnsload
import yaml
from dnsload.settings import Settings, read_settings
from tsnameserver.records import CONFIGMAP_NAME, RECORDS_KEY


def pod() -> Any:
    return yaml.safe_load((Path(dnsload.__file__).parent / "job.yaml").read_text())["spec"]["template"]["spec"]


def settings(**environment: str) -> Settings:
    (container,) = pod()["containers"]
    values = {each["name"]: each["value"] for each in container["env"]} | environment
    arguments = container["args"]
    for name, value in values.items():
        arguments = [argument.replace(f"$({name})", value) for argument in arguments]
    return read_settings(arguments)


def test_its_arguments_are_good() -> None:
    read = settings(TARGET="192.0.2.10:53", RATE="1..5000", DURATION="24h")
    assert (str(read.targets[0]), read.form.recursion_desired) == ("192.0.2.10:53", True)
    assert read.speed.seconds == 24 * 3600


def test_it_mounts_the_records_where_it_reads_them() -> None:
    (container,) = pod()["containers"]
    (mount,) = container["volumeMounts"]
    (volume,) = pod()["volumes"]
    assert volume == {"name": mount["name"], "configMap": {"name": CONFIGMAP_NAME}}
    assert settings(TARGET="192.0.2.10").records == (Path(mount["mountPath"]) / RECORDS_KEY,)
