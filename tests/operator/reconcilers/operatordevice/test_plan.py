"""The plans by which the operator adds its own device to the tailnet, and the problems that prevent this."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.objects import DEPLOYMENT, STATEFULSET, Object, key_of
from tsoperator.kube.errors import KubeError
from tsoperator.proxy.login import Keys
from tsoperator.reconcilers.operatordevice.ask import ask_of, claim_in_need
from tsoperator.reconcilers.operatordevice.plan import Decided, Observed, login, plan, registers
from tsoperator.runtime.plan import Child, Creation, Plan, Refusal
from tsoperator.runtime.result import Pending
from tsoperator.tailnet.operatorid import OperatorIdentity

from tests.operator.reconcilers.operatordevice.steps import in_words
from tests.support.manifests import exposed, group_egress, ingress, load_balancer, proxy_group
from tests.support.objects import deleting, obj, pod, settings, slim_secret, stored, texts

SETTINGS = settings(operator_secret="operator")
ASK = ask_of(SETTINGS)
UNREGISTERED, UNREAD = OperatorIdentity(is_known=True), OperatorIdentity()
REGISTERED = OperatorIdentity("nABC", is_known=True)
DAMAGED = OperatorIdentity(is_known=True, problem="not readable")
NEW = Observed(UNREGISTERED, needed=True)
KEYS = Keys({0: "tskey-1"})


def made(observed: Observed = NEW) -> list[Object]:
    """Return the objects that the operator makes to register a device."""
    steps = plan(ASK, observed, SETTINGS, KEYS).plan.steps
    return [step.obj for step in steps if isinstance(step, Child | Creation)]


def live(auth_key: str = "tskey-1") -> tuple[Object, Object]:
    """Return the StatefulSet and the slim config Secret with *auth_key*, as they are in the cache."""
    _, config, statefulset = made()
    written = stored({**config, "data": plan_data(auth_key)})
    return stored(statefulset, creationTimestamp="2026-01-02T03:04:05Z"), slim_secret_of(written)


def plan_data(auth_key: str) -> dict[str, str]:
    (_, step, _) = plan(ASK, NEW, SETTINGS, Keys({0: auth_key})).plan.steps
    assert isinstance(step, Creation)
    found: dict[str, str] = step.obj["data"]
    return found


def slim_secret_of(secret: Object) -> Object:
    return slim_secret(key_of(secret).name, texts(secret), secret["metadata"]["labels"])


STATEFUL, CONFIG = live()
RUNNING = replace(NEW, statefulset=STATEFUL, config=CONFIG, has_state=True)
ANOTHERS = {"labels": {"tailscale.com/managed": "true", "tailscale.com/parent-resource": "db"}}
THEIRS = obj(STATEFULSET, ASK.statefulset, **ANOTHERS)
THEIR_CONFIG = slim_secret("operator-config", {}, ANOTHERS["labels"])
PROXY = obj(DEPLOYMENT, ASK.deployment, labels=ASK.owner.labels)
THEIR_PROXY = obj(DEPLOYMENT, ASK.deployment, **ANOTHERS)
DELETE = ["delete operator-device", "delete operator-config"]
DELETE_PROXY = ["delete operator-apiserver-proxy", "delete operator-config"]
CREATE = ["create operator", "create operator-config", "make operator-device"]
ERROR = KubeError("refused")


class Case(NamedTuple):
    """The facts, the expected steps in words, and words of the expected problem; empty if there is no problem."""

    observed: Observed
    steps: Sequence[str] = ()
    problem: str = ""
    keys: Keys | Refusal = KEYS
    again: float | None = None


CASES = {
    "nothing needs it": Case(replace(NEW, needed=False)),
    "not read yet": Case(replace(NEW, stored=UNREAD)),
    "not read yet, while it registers": Case(replace(RUNNING, stored=UNREAD)),
    "unreadable": Case(replace(RUNNING, stored=DAMAGED)),
    "there is a device": Case(replace(NEW, stored=REGISTERED)),
    "a device is needed": Case(NEW, CREATE, again=30.0),
    "the Secret is there": Case(replace(NEW, has_state=True), CREATE[1:], again=30.0),
    "tags refused": Case(NEW, problem="tag:k8s-operator must be owned", keys=Refusal("tag:k8s-operator must be owned")),
    "it registers": Case(RUNNING, ["make operator-device"], again=30.0, keys=Keys()),
    "another auth key": Case(
        RUNNING, ["patch operator-config", "make operator-device"], again=30.0, keys=Keys({0: "tskey-2"})
    ),
    "it is slow": Case(
        replace(RUNNING, age=60.0),
        ["make operator-device"],
        "Pod tailscale/operator-device-0 is to register since 2026-01-02T03:04:05Z",
        again=30.0,
        keys=Keys(),
    ),
    "it is registered": Case(replace(RUNNING, stored=REGISTERED), DELETE),
    "nothing needs it any more": Case(replace(RUNNING, needed=False), DELETE),
    "nothing needs it any more, and it can't be read": Case(replace(RUNNING, needed=False, stored=DAMAGED), DELETE),
    "its StatefulSet goes": Case(
        replace(RUNNING, stored=REGISTERED, statefulset=deleting(STATEFUL)), ["delete operator-config"]
    ),
    "a Go operator runs": Case(
        replace(RUNNING, go="operator-7d9f"), DELETE, "another operator may still run (operator-7d9f)", again=30.0
    ),
    "a Go operator runs, and has a device": Case(replace(NEW, stored=REGISTERED, go="operator-7d9f")),
    "the StatefulSet of another": Case(
        replace(NEW, statefulset=THEIRS), problem="StatefulSet tailscale/operator-device is in the way"
    ),
    "the config of another": Case(
        replace(NEW, config=THEIR_CONFIG), problem="Secret tailscale/operator-config is in the way"
    ),
    "an API server proxy": Case(replace(RUNNING, statefulset=None, deployment=PROXY), DELETE_PROXY, again=30.0),
    "an API server proxy, while the ID isn't read": Case(
        replace(RUNNING, statefulset=None, stored=UNREAD, deployment=PROXY), DELETE_PROXY, again=30.0
    ),
    "an API server proxy that goes": Case(replace(NEW, deployment=deleting(PROXY)), again=30.0),
    "its Pod ends": Case(replace(NEW, pods=[pod("operator-apiserver-proxy-1-x", "1")]), again=30.0),
    "a Deployment of another": Case(replace(NEW, deployment=THEIR_PROXY), CREATE, again=30.0),
    "the StatefulSet of another, with a device": Case(replace(NEW, stored=REGISTERED, statefulset=THEIRS)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_objects_that_register_a_device_exist_only_while_the_operator_needs_an_id_but_has_none(case: Case) -> None:
    found = plan(ASK, case.observed, SETTINGS, case.keys)
    assert in_words(found.plan) == list(case.steps)
    assert case.problem in found.problem
    assert bool(found.problem) is bool(case.problem)
    assert found.plan.requeue_after == case.again


async def test_the_plan_reports_a_refused_auth_key_and_waits_for_an_auth_key_that_is_not_there_yet() -> None:
    late = Pending(asyncio.get_running_loop().create_future())
    assert plan(ASK, NEW, SETTINGS, Refusal("no", error=ERROR)) == Decided(Plan(error=ERROR), "no")
    assert plan(ASK, NEW, SETTINGS, Keys(pending=late)) == Decided(Plan(error=late))


async def test_the_plan_changes_nothing_until_the_operator_knows_whether_an_object_needs_the_id() -> None:
    late = Pending(asyncio.get_running_loop().create_future())
    waiting = replace(RUNNING, needed=False, pending=late)
    assert not registers(ASK, waiting)
    assert plan(ASK, waiting, SETTINGS) == Decided(Plan(error=late))


def test_a_secret_with_a_long_name_is_refused_only_if_a_device_is_needed() -> None:
    found = ask_of(settings(operator_secret="o" * 46))
    assert not registers(found, NEW)
    assert "46 characters, and 45 are possible" in plan(found, NEW, SETTINGS).problem
    assert plan(found, replace(NEW, stored=REGISTERED), SETTINGS).problem == ""
    assert registers(ask_of(settings(operator_secret="o" * 45)), NEW)


REFUSED = slim_secret("operator", {"reissue_authkey": "tskey-1"})
IN_NEED = {
    "new": (NEW, True),
    "with a key": (RUNNING, False),
    "asks for another key": (replace(RUNNING, state=REFUSED), True),
    "has another key": (replace(RUNNING, state=REFUSED, config=live("tskey-2")[1]), False),
    "without a key": (replace(RUNNING, config=slim_secret("operator-config", {"cap-107.hujson": {}})), True),
}


@pytest.mark.parametrize(("observed", "in_need"), IN_NEED.values(), ids=IN_NEED)
def test_the_operators_device_gets_an_auth_key_unless_it_has_a_good_one(observed: Observed, in_need: bool) -> None:
    found = login(ASK, observed, SETTINGS)
    assert bool(found.in_need) is in_need
    assert [each.tags for each in found.replicas] == [("tag:k8s-operator",)]


def test_an_unused_auth_key_is_not_lost_when_the_hostname_of_the_operators_device_changes() -> None:
    changed = replace(SETTINGS, operator_hostname="gate")
    assert login(ask_of(changed), RUNNING, changed).in_need


def test_the_pod_of_the_operators_device_is_unprivileged_and_keeps_its_state_in_the_operators_secret() -> None:
    state, config, statefulset = made()
    spec = statefulset["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert {name: env[name] for name in ENV} == ENV
    assert container["volumeMounts"][0]["mountPath"] == ENV["TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR"]
    assert spec["volumes"][0]["secret"]["secretName"] == key_of(config).name
    assert (spec["serviceAccountName"], statefulset["spec"]["replicas"]) == ("proxies", 1)
    assert not {"securityContext", "initContainers"} & {*spec, *container}
    assert "labels" not in state["metadata"]


ENV = {
    "TS_USERSPACE": "true",
    "TS_KUBE_SECRET": "operator",
    "TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR": "/etc/tsconfig/operator",
}


def test_the_pod_of_the_operators_device_is_not_taken_for_a_pod_of_a_go_operator() -> None:
    (_, _, statefulset) = made()
    labels = statefulset["spec"]["template"]["metadata"]["labels"]
    assert "app" not in labels
    assert statefulset["spec"]["selector"]["matchLabels"] == labels


GROUPED = {"proxy_group": "pg"}
BALANCED = load_balancer(**GROUPED)
BALANCED["spec"]["clusterIP"] = "192.0.2.1"
NEEDS = {
    "an Ingress": (ingress(**GROUPED), "web"),
    "a load balancer": (BALANCED, "default-lb"),
    "a Service without a group": (exposed(), None),
    "an egress Service": (group_egress(), None),
    "an invalid Ingress": (ingress(host="-.example.org", **GROUPED), None),
    "a group that offers the Kubernetes API": (proxy_group("kapi", type="kube-apiserver"), "kapi"),
    "a group of another type": (proxy_group(type="ingress"), None),
    "an Ingress that goes": (deleting(ingress(**GROUPED)), None),
}


@pytest.mark.parametrize(("found", "label"), NEEDS.values(), ids=NEEDS)
def test_an_object_needs_the_operators_id_if_the_object_is_valid_and_a_group_exposes_it(
    found: Object, label: str | None
) -> None:
    claim = claim_in_need(found, SETTINGS)
    assert (claim and claim.label) == label
