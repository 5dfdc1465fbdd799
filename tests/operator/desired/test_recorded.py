"""What we make has every field that the Go operator 1.102.5 gave it for the same input, as recorded on a cluster."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from tsoperator.api.objects import Object
from tsoperator.desired.plan import Plan, write_for
from tsoperator.desired.proxy import Children

from tests.operator.desired.test_adoption import (
    connector_plan,
    egress_plan,
    exposed_plan,
    ingress_plan,
    recorded,
)
from tests.operator.desired.test_overlay import RECORDED_CLASS
from tests.support.objects import children_of, proxy_class, texts

# The API server fills these in, in ours too.
_CONTAINERS = "spec.template.spec.containers.*"
_INIT_CONTAINERS = "spec.template.spec.initContainers.*"
DEFAULTS = {
    "metadata.resourceVersion",
    "metadata.uid",
    "spec.clusterIP",
    "spec.clusterIPs",
    "spec.internalTrafficPolicy",
    "spec.ipFamilies",
    "spec.ipFamilyPolicy",  # of a metrics Service; the headless one has it from us
    "spec.persistentVolumeClaimRetentionPolicy",
    "spec.podManagementPolicy",
    "spec.ports.*.targetPort",
    "spec.revisionHistoryLimit",
    "spec.sessionAffinity",
    "spec.template.spec.dnsPolicy",
    "spec.template.spec.restartPolicy",
    "spec.template.spec.schedulerName",
    "spec.template.spec.securityContext",
    "spec.template.spec.serviceAccount",
    "spec.template.spec.terminationGracePeriodSeconds",
    "spec.template.spec.volumes.*.secret.defaultMode",
    "spec.type",
    "spec.updateStrategy",
    f"{_CONTAINERS}.env.*.valueFrom.fieldRef.apiVersion",
    f"{_CONTAINERS}.terminationMessagePath",
    f"{_CONTAINERS}.terminationMessagePolicy",
    f"{_INIT_CONTAINERS}.imagePullPolicy",
    f"{_INIT_CONTAINERS}.resources",
    f"{_INIT_CONTAINERS}.terminationMessagePath",
    f"{_INIT_CONTAINERS}.terminationMessagePolicy",
}
# Our names follow from the parent, so that of two operators at once both mean the same object.
NAMES = {"metadata.generateName"}
# The proxy writes these once it runs.
STATE = {"data._machinekey", "data.device_fqdn", "data.device_id", "data.device_ips"}
EXCUSED = DEFAULTS | NAMES | STATE


def with_class() -> dict[str, Object]:
    """What was made for the Connector with its ProxyClass."""
    made = recorded("class")
    service = recorded("connector")["service"]
    service["metadata"]["name"] = made["statefulset"]["metadata"]["name"]
    service["spec"]["selector"] = made["statefulset"]["spec"]["selector"]["matchLabels"]
    return made | {"service": service}


MADE = {name: partial(recorded, name) for name in ("egress", "exposed", "ingress", "connector")} | {"class": with_class}
PLANS: dict[str, Callable[[dict[str, Object], Children], Plan]] = {
    "egress": egress_plan,
    "exposed": exposed_plan,
    "ingress": ingress_plan,
    "connector": connector_plan,
    "class": partial(connector_plan, proxy_class=proxy_class(spec=RECORDED_CLASS, ready=True)),
}


def ours(name: str) -> dict[str, Object]:
    """What we make, of nothing but a headless Service that gives it its name, by what it is."""
    made = children_of(PLANS[name](MADE[name](), Children([MADE[name]()["service"]])))
    service, secret, statefulset, *metrics = made
    secret = {**secret, "data": {key: json.loads(text) for key, text in texts(secret).items()}}
    found = {"service": service, "secret": secret, "statefulset": statefulset}
    return found | ({"metrics": metrics[0]} if metrics else {})


def lacking(theirs: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield the fields of *theirs* that are not, or not the same, in *found*; the place in a list as ``*``."""
    if isinstance(theirs, Mapping) and isinstance(found, Mapping):
        for name, value in theirs.items():
            yield from lacking(value, found.get(name), f"{path}.{name}".removeprefix("."))
    elif isinstance(theirs, list) and isinstance(found, list) and len(theirs) == len(found):
        for one, other in zip(theirs, found, strict=True):
            yield from lacking(one, other, f"{path}.*")
    elif theirs != found:
        yield path


def lacks(name: str) -> set[str]:
    """What is lacking in ours, by what it is lacking in."""
    objects = ours(name)
    return {path for what, obj in objects.items() for path in lacking(MADE[name]().get(what, {}), obj)}


@pytest.mark.parametrize("name", MADE)
def test_every_field_is_there_or_excused(name: str) -> None:
    assert lacks(name) - EXCUSED == set()


def test_nothing_is_excused_that_is_there_everywhere() -> None:
    assert EXCUSED - {path for name in MADE for path in lacks(name)} == set()


def test_a_field_that_is_not_there_is_found() -> None:
    theirs = {"a": [{"b": 1, "c": 2}], "d": [1], "e": 3}
    assert [*lacking(theirs, {"a": [{"b": 1}], "d": [], "e": 3, "f": 4})] == ["a.*.c", "d"]


@pytest.mark.parametrize("what", ["statefulset", "metrics"])
def test_what_has_a_class_is_taken_over_without_a_restart(what: str) -> None:
    there = MADE["class"]()[what]
    live = {**there, "metadata": {**there["metadata"], "namespace": "tailscale", "uid": "u", "resourceVersion": "7"}}
    written = write_for(ours("class")[what], live)
    assert written is not None
    assert written["spec"] == live["spec"]
