"""Our children have all fields of the Go operator's children, so that no Pod restarts at a takeover."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tsoperator.api.names import ANNOTATION_DIGEST
from tsoperator.api.objects import Object, annotations, key_of
from tsoperator.proxy.proxy import Children
from tsoperator.runtime.diff import digest_of, write_for
from tsoperator.runtime.plan import Plan

from tests.operator.proxy.recordings import PLANS, connector_plan, exposed_plan, nameserver_plan, recorded
from tests.support.objects import children_of, patches_of, stored, texts

_SPEC = "spec.template.spec"
_SERVICE = {"clusterIPs", "internalTrafficPolicy", "ipFamilies", "sessionAffinity", "type"}
_STATEFULSET = {
    "persistentVolumeClaimRetentionPolicy", "podManagementPolicy", "revisionHistoryLimit", "updateStrategy",
}  # fmt: skip
_CONTAINER = {"terminationMessagePath", "terminationMessagePolicy"}
_PODS = {
    "dnsPolicy", "initContainers.*.imagePullPolicy", "initContainers.*.resources", "restartPolicy", "schedulerName",
    "securityContext", "serviceAccount", "terminationGracePeriodSeconds", "volumes.*.secret.defaultMode",
    "containers.*.env.*.valueFrom.fieldRef.apiVersion",
    *(f"{containers}.*.{field}" for containers in ("containers", "initContainers") for field in _CONTAINER),
}  # fmt: skip
# The API server fills in these fields, in our children, too.
DEFAULTS = {
    *(
        f"{what}.metadata.{field}"
        for what in ("service", "secret", "statefulset")
        for field in ("resourceVersion", "uid")
    ),
    *(f"service.spec.{field}" for field in _SERVICE),
    *(f"metrics.spec.{field}" for field in _SERVICE - {"type"} | {"clusterIP", "ipFamilyPolicy", "ports.*.targetPort"}),
    *(f"statefulset.spec.{field}" for field in _STATEFULSET),
    *(f"statefulset.{_SPEC}.{field}" for field in _PODS),
}
NAMESERVER_DEFAULTS = {
    "annotations", "clusterIPs", "defaultMode", "dnsPolicy", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy",
    "progressDeadlineSeconds", "resourceVersion", "resources", "schedulerName", "securityContext", "sessionAffinity",
    "terminationGracePeriodSeconds", "terminationMessagePath", "terminationMessagePolicy", "type", "uid",
}  # fmt: skip
# Our names follow from the parent, so that two operators that run at once would write the same object.
NAMES = {"service.metadata.generateName"}
# A proxy that runs writes these keys.
STATE = {f"secret.data.{key}" for key in ("_machinekey", "device_fqdn", "device_id", "device_ips")}
# The script of a new proxy needs no program sysctl; an existing proxy keeps its own script.
SCRIPT = {f"statefulset.{_SPEC}.initContainers.*.args.*"}
EXCUSED = DEFAULTS | NAMES | STATE | SCRIPT

EVERY_PROXY = pytest.mark.parametrize("name", PLANS)


def ours(name: str, *statefulsets: Object) -> dict[str, Object]:
    """Return the children that our operator makes for the Service of the recording *name*.

    The cluster has the recorded *statefulsets*. The keys of the result are ``service``, ``secret``, ``statefulset`` and
    ``metrics``.
    """
    there = Children([recorded(name)["service"]], statefulsets)
    service, *metrics, secret, statefulset = children_of(PLANS[name](recorded(name), there))
    secret = {**secret, "data": {key: json.loads(text) for key, text in texts(secret).items()}}
    found = {"service": service, "secret": secret, "statefulset": statefulset}
    return found | ({"metrics": metrics[0]} if metrics else {})


def lacking(theirs: Any, found: Any, path: str) -> Iterator[str]:
    """Yield the paths of the fields of *theirs* that *found* lacks or has with another value.

    In a path, an index is written as ``*``.
    """
    if isinstance(theirs, Mapping) and isinstance(found, Mapping):
        for name, value in theirs.items():
            yield from lacking(value, found.get(name), f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(found, list) and len(theirs) == len(found):
        for one, other in zip(theirs, found, strict=True):
            yield from lacking(one, other, f"{path}.*")
    elif theirs != found:
        yield path


def lacks(name: str) -> set[str]:
    return {path for what, obj in ours(name).items() for path in lacking(recorded(name).get(what, {}), obj, what)}


@EVERY_PROXY
def test_our_children_have_every_recorded_field_except_for_the_listed_exceptions(name: str) -> None:
    assert lacks(name) - EXCUSED == set()


def test_our_nameserver_has_every_recorded_field_or_its_default() -> None:
    found = {obj["kind"]: obj for obj in children_of(nameserver_plan(recorded("nameserver")))}
    lack = {path for obj in recorded("nameserver").values() for path in lacking(obj, found[obj["kind"]], "")}
    assert {path.rpartition(".")[2] for path in lack} == NAMESERVER_DEFAULTS


def test_every_listed_exception_is_a_field_that_really_differs() -> None:
    assert EXCUSED - {path for name in PLANS for path in lacks(name)} == set()


def only_marked(plan: Plan, made: dict[str, Object]) -> list[str]:
    """Return the kinds of those objects in *made* that *plan* writes as whole objects, and not by patches.

    Check that these writes change only the digest.
    """
    live = {(obj["kind"], key_of(obj)): obj for obj in made.values() if "kind" in obj}
    adopted = [obj for obj in children_of(plan) if (obj["kind"], key_of(obj)) in live]
    for desired in adopted:
        found = live[desired["kind"], key_of(desired)]
        given = {**annotations(found), ANNOTATION_DIGEST: digest_of(desired)}
        assert write_for(desired, found) == {**found, "metadata": {**found["metadata"], "annotations": given}}
    return [obj["kind"] for obj in adopted]


def test_a_recorded_proxy_or_nameserver_only_gets_the_digest() -> None:
    for name in ("egress", "connector"):
        assert only_marked(PLANS[name](recorded(name), None), recorded(name)) == ["Service", "StatefulSet"]
    made = recorded("nameserver")
    assert only_marked(nameserver_plan(made), made) == ["Service", "ServiceAccount", "Deployment"]


def placed(recorded: Object) -> Object:
    return stored({**recorded, "metadata": {**recorded["metadata"], "namespace": "tailscale"}})


RECORDED_SPECS = [("exposed", "service"), *((name, "statefulset") for name in ("exposed", "ingress", "class"))]


@pytest.mark.parametrize(("name", "what"), [*RECORDED_SPECS, ("class", "metrics")])
def test_the_write_for_a_recorded_object_leaves_its_spec_unchanged(name: str, what: str) -> None:
    live, statefulset = (placed(recorded(name)[each]) for each in (what, "statefulset"))
    written = write_for(ours(name, statefulset)[what], live)
    assert written is not None
    assert written["spec"] == live["spec"]


@pytest.mark.parametrize("name", ["egress", "exposed", "ingress", "connector"])
def test_the_plan_for_a_recorded_proxy_does_not_write_its_secret(name: str) -> None:
    plan = PLANS[name](recorded(name), None)
    assert not [patch for patch in patches_of(plan) if patch.resource.kind == "Secret"]
    assert not [obj for obj in children_of(plan) if obj["kind"] == "Secret"]


def test_the_plan_for_a_recorded_load_balancer_has_the_recorded_status() -> None:
    made = recorded("exposed")
    assert exposed_plan(made).status == made["status"]


def test_the_status_of_a_connector_equals_that_of_the_go_operator_but_for_the_message() -> None:
    device = {"hostname": "my-router.tail1234.ts.net", "tailnetIPs": ["100.64.0.14", "fd7a:115c:a1e0::e"]}
    words = "it is in the tailnet as my-router.tail1234.ts.net (100.64.0.14, fd7a:115c:a1e0::e)"
    ready = {"type": "ConnectorReady", "status": "True", "reason": "ConnectorCreated", "message": words}
    assert connector_plan(recorded("connector")).status == {
        "conditions": [{**ready, "observedGeneration": 1, "lastTransitionTime": ""}],
        "devices": [device],
        "isAppConnector": False,
        "isExitNode": True,
        "subnetRoutes": "10.40.0.0/14,192.168.0.0/24",
        **device,
    }
