"""The operator's Deployment and Role as the chart renders them, with changes."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import yaml
from tsoperator.api.objects import Object
from tsoperator.check.cluster.installed import Installed
from tsoperator.check.findings import Finding

from tests.docs.pages import ROOT

NAMESPACE = "tailscale"


@cache
def manifests() -> Sequence[Object]:
    text = (ROOT / "charts" / "manifests" / "operator.yaml").read_text()
    return [obj for obj in yaml.load_all(text, yaml.CSafeLoader) if obj]


def deployment(env: dict[str, str] | None = None, replicas: int = 2, **pod: Any) -> Object:
    """Return the operator's Deployment with the environment variables *env* and the fields *pod* in its Pod spec."""
    (found,) = (obj for obj in manifests() if obj["kind"] == "Deployment")
    template = found["spec"]["template"]
    (container,) = template["spec"]["containers"]
    kept = [each for each in container["env"] if each["name"] not in (env or {})]
    variables = [*kept, *({"name": name, "value": value} for name, value in (env or {}).items())]
    spec = {**template["spec"], "containers": [{**container, "env": variables}], **pod}
    return {**found, "spec": {**found["spec"], "replicas": replicas, "template": {**template, "spec": spec}}}


def installed(env: dict[str, str] | None = None, replicas: int = 2, **pod: Any) -> Installed:
    return Installed(NAMESPACE, deployment(env, replicas, **pod))


def wrong(findings: Sequence[Finding]) -> list[str]:
    """Return the words and the cures of those *findings* that report a fault."""
    return [f"{each.words}; {each.cure}" for each in findings if each.verdict != "ok"]
