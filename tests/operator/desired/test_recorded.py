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
from tests.support.objects import children_of, live_proxy_class, texts

_SPEC = "spec.template.spec"
_SERVICE = {"clusterIPs", "internalTrafficPolicy", "ipFamilies", "sessionAffinity", "type"}
# The API server fills these in, in ours too.
DEFAULTS = {
    *(
        f"{what}.metadata.{field}"
        for what in ("service", "secret", "statefulset")
        for field in ("resourceVersion", "uid")
    ),
    *(f"service.spec.{field}" for field in _SERVICE),
    *(f"metrics.spec.{field}" for field in _SERVICE - {"type"} | {"clusterIP", "ipFamilyPolicy", "ports.*.targetPort"}),
    "statefulset.spec.persistentVolumeClaimRetentionPolicy",
    "statefulset.spec.podManagementPolicy",
    "statefulset.spec.revisionHistoryLimit",
    "statefulset.spec.updateStrategy",
    f"statefulset.{_SPEC}.containers.*.env.*.valueFrom.fieldRef.apiVersion",
    f"statefulset.{_SPEC}.containers.*.terminationMessagePath",
    f"statefulset.{_SPEC}.containers.*.terminationMessagePolicy",
    f"statefulset.{_SPEC}.dnsPolicy",
    f"statefulset.{_SPEC}.initContainers.*.imagePullPolicy",
    f"statefulset.{_SPEC}.initContainers.*.resources",
    f"statefulset.{_SPEC}.initContainers.*.terminationMessagePath",
    f"statefulset.{_SPEC}.initContainers.*.terminationMessagePolicy",
    f"statefulset.{_SPEC}.restartPolicy",
    f"statefulset.{_SPEC}.schedulerName",
    f"statefulset.{_SPEC}.securityContext",
    f"statefulset.{_SPEC}.serviceAccount",
    f"statefulset.{_SPEC}.terminationGracePeriodSeconds",
    f"statefulset.{_SPEC}.volumes.*.secret.defaultMode",
}
# Our names follow from the parent, so that of two operators at once both mean the same object.
NAMES = {"service.metadata.generateName"}
# The proxy writes these once it runs.
STATE = {f"secret.data.{key}" for key in ("_machinekey", "device_fqdn", "device_id", "device_ips")}
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
    "class": partial(connector_plan, proxy_class=live_proxy_class(spec=RECORDED_CLASS, ready=True)),
}


def ours(name: str) -> dict[str, Object]:
    """What we make, of nothing but a headless Service that gives it its name, by what it is."""
    made = children_of(PLANS[name](MADE[name](), Children([MADE[name]()["service"]])))
    service, secret, statefulset, *metrics = made
    secret = {**secret, "data": {key: json.loads(text) for key, text in texts(secret).items()}}
    found = {"service": service, "secret": secret, "statefulset": statefulset}
    return found | ({"metrics": metrics[0]} if metrics else {})


def lacking(theirs: Any, found: Any, path: str) -> Iterator[str]:
    """Yield the fields of *theirs* that are not, or not the same, in *found*; the place in a list as ``*``."""
    if isinstance(theirs, Mapping) and isinstance(found, Mapping):
        for name, value in theirs.items():
            yield from lacking(value, found.get(name), f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(found, list) and len(theirs) == len(found):
        for one, other in zip(theirs, found, strict=True):
            yield from lacking(one, other, f"{path}.*")
    elif theirs != found:
        yield path


def lacks(name: str) -> set[str]:
    """What is lacking in ours."""
    return {path for what, obj in ours(name).items() for path in lacking(MADE[name]().get(what, {}), obj, what)}


@pytest.mark.parametrize("name", MADE)
def test_every_field_is_there_or_excused(name: str) -> None:
    assert lacks(name) - EXCUSED == set()


def test_nothing_is_excused_that_is_there_everywhere() -> None:
    assert EXCUSED - {path for name in MADE for path in lacks(name)} == set()


def test_a_field_that_is_not_there_is_found() -> None:
    theirs = {"a": [{"b": 1, "c": 2}], "d": [1], "e": 3}
    assert [*lacking(theirs, {"a": [{"b": 1}], "d": [], "e": 3, "f": 4}, "pod")] == ["pod.a.*.c", "pod.d"]


@pytest.mark.parametrize("what", ["statefulset", "metrics"])
def test_what_has_a_class_is_taken_over_without_a_restart(what: str) -> None:
    there = MADE["class"]()[what]
    live = {**there, "metadata": {**there["metadata"], "namespace": "tailscale", "uid": "u", "resourceVersion": "7"}}
    written = write_for(ours("class")[what], live)
    assert written is not None
    assert written["spec"] == live["spec"]
