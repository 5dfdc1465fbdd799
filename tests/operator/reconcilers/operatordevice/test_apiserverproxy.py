"""The plans for the API server proxy, and the Events about it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.device import Device
from tsoperator.api.objects import DEPLOYMENT, SERVICEACCOUNT, STATEFULSET, Object
from tsoperator.kube.errors import KubeError
from tsoperator.proxy.certificate import ObservedCertificate
from tsoperator.proxy.devices import Holder
from tsoperator.proxy.login import Keys
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import Certificate
from tsoperator.reconcilers.operatordevice.apiserverproxy import ObservedProxy, can_serve, failed, login, plan
from tsoperator.reconcilers.operatordevice.ask import ask_of
from tsoperator.runtime.clock import utc_now
from tsoperator.runtime.plan import Child, Note, Refusal, Report
from tsoperator.runtime.result import Pending
from tsoperator.settings import Settings

from tests.operator.reconcilers.operatordevice.facts import (
    ASK,
    DEVICE,
    NEW,
    POD_OF_PROXY,
    REPORTED,
    RUNNING,
    SETTINGS,
    config,
    deployment,
    seen,
    serving,
    state,
)
from tests.operator.reconcilers.operatordevice.steps import in_words
from tests.support.objects import deleting, obj, pod, slim_secret

ANOTHERS = {"labels": {"tailscale.com/managed": "true", "tailscale.com/parent-resource": "db"}}
REGISTERING = obj(STATEFULSET, ASK.statefulset, labels=ASK.owner.labels)
THEIRS = obj(STATEFULSET, ASK.statefulset, **ANOTHERS)
EARLIER = pod("operator-apiserver-proxy-0-x", "earlier-uid")
ENDING = replace(RUNNING, its_pods=[pod("operator-device-0", "1")])
ASKING = ReplicaSecrets(config("tskey-1"), state(**REPORTED, reissue_authkey="tskey-1"))
GO = state(**{"_current-profile": "profile-1a2b", "profile-1a2b": '{"Config": {"NodeID": "nOLD"}}'})
MAKE = "make operator-apiserver-proxy"
CREATE = ["create operator", "create operator-config", MAKE]
WITHOUT_IMAGE = serving(operator_image="")
TAKING_OVER = serving(take_over_names=True)
ERROR = KubeError("refused")


class Case(NamedTuple):
    """The facts, the expected steps in words, and words of the expected problem; empty if there is no problem."""

    observed: ObservedProxy
    steps: Sequence[str] = ()
    problem: str = ""
    settings: Settings = SETTINGS
    keys: Keys | Refusal = Keys({0: "tskey-1"})
    again: float | None = None


CASES = {
    "nothing is there": Case(NEW, CREATE, again=30.0),
    "the Secret is there, and empty": Case(
        replace(NEW, secrets=ReplicaSecrets(state=state())), ["create operator-config", MAKE], again=30.0
    ),
    "the device of a Go operator": Case(
        replace(NEW, secrets=ReplicaSecrets(state=GO)), ["create operator-config", MAKE], keys=Keys()
    ),
    "a Go operator runs": Case(replace(NEW, go="operator-7d9f"), problem="may still run (operator-7d9f)", again=5.0),
    "a Go operator runs beside it": Case(replace(RUNNING, go="operator-7d9f"), [MAKE], keys=Keys()),
    "it runs": Case(RUNNING, [MAKE], keys=Keys()),
    "another hostname": Case(RUNNING, ["patch operator-config", MAKE], settings=serving(operator_hostname="gate")),
    "plain HTTP": Case(RUNNING, ["patch operator-config", MAKE], settings=serving(apiserver_proxy_http=True)),
    "an auth key that is used": Case(
        replace(RUNNING, secrets=ReplicaSecrets(config("tskey-1"), state(**REPORTED))),
        ["patch operator-config", MAKE],
        keys=Keys(),
    ),
    "a config of an earlier account": Case(
        replace(RUNNING, account=obj(SERVICEACCOUNT, ASK.deployment, uid="later")),
        ["patch operator-config", MAKE],
        keys=Keys(),
    ),
    "tailscaled stored what it serves": Case(
        replace(RUNNING, secrets=ReplicaSecrets(config(), state(**REPORTED, _serve_1a2b="{}"))),
        [MAKE, "patch operator"],
        keys=Keys(),
    ),
    "another auth key": Case(replace(RUNNING, secrets=ASKING), ["patch operator-config", MAKE], keys=Keys({0: "new"})),
    "the auth key comes later": Case(
        replace(RUNNING, secrets=ASKING), [MAKE], keys=Keys({0: ""}, requeue_after=25.0), again=25.0
    ),
    "tags refused": Case(NEW, problem="must be owned", keys=Refusal("must be owned")),
    "no image": Case(NEW, problem="OPERATOR_IMAGE is not set", settings=WITHOUT_IMAGE),
    "no account": Case(replace(NEW, account=None), problem="needs ServiceAccount tailscale/operator-apiserver-proxy"),
    "the account goes": Case(
        replace(RUNNING, account=deleting(obj(DEPLOYMENT, ASK.deployment))), problem="charts/manifests/apiserver-proxy"
    ),
    "a Deployment of another": Case(
        replace(NEW, deployment=obj(DEPLOYMENT, ASK.deployment, **ANOTHERS)),
        problem="Deployment tailscale/operator-apiserver-proxy is in the way",
    ),
    "the config of another": Case(
        replace(NEW, secrets=ReplicaSecrets(slim_secret("operator-config", {}, ANOTHERS["labels"]))),
        problem="Secret tailscale/operator-config is in the way",
    ),
    "a StatefulSet registers the device": Case(
        replace(NEW, statefulset=REGISTERING), ["delete operator-device"], again=5.0
    ),
    "a StatefulSet of another": Case(replace(RUNNING, statefulset=THEIRS), [MAKE], keys=Keys()),
    "its StatefulSet goes": Case(replace(NEW, statefulset=deleting(REGISTERING)), again=5.0),
    "its Pod ends": Case(ENDING, again=5.0),
    "it is slow": Case(
        replace(RUNNING, secrets=ReplicaSecrets(config("tskey-1"), state()), age=60.0),
        [MAKE],
        "operator-apiserver-proxy was made at 2026-01-02T03:04:05Z",
        keys=Keys(),
    ),
    "it isn't slow yet": Case(
        replace(RUNNING, secrets=ReplicaSecrets(config("tskey-1"), state()), age=59.0), [MAKE], keys=Keys(), again=30.0
    ),
    "a new device takes over the name": Case(NEW, ["FreeName", *CREATE], settings=TAKING_OVER, again=30.0),
    "it takes over the name": Case(
        replace(RUNNING, tailnet=seen(replace(DEVICE, name="tailscale-operator-1.tail1234.ts.net"))),
        [MAKE, "TakeName"],
        settings=TAKING_OVER,
        keys=Keys(),
    ),
    "other tags stay": Case(replace(RUNNING, tailnet=seen(replace(DEVICE, tags=("tag:a",)))), [MAKE], keys=Keys()),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_plan_makes_or_updates_the_api_server_proxy_unless_there_is_a_problem(case: Case) -> None:
    found = plan(ask_of(case.settings), case.observed, case.settings, case.keys)
    assert in_words(found.plan) == list(case.steps)
    assert case.problem in found.problem
    assert bool(found.problem) is bool(case.problem)
    assert found.plan.requeue_after == case.again


@pytest.mark.parametrize("name", ["no account", "a Go operator runs", "its Pod ends", "it runs", "tags refused"])
def test_an_auth_key_is_minted_only_for_an_api_server_proxy_that_can_be_made(name: str) -> None:
    case = CASES[name]
    assert can_serve(ASK, case.observed, SETTINGS) is (name in ("it runs", "tags refused"))


async def test_the_secrets_of_the_api_server_proxy_stay_unchanged_until_its_auth_key_is_minted() -> None:
    late = Pending(asyncio.get_running_loop().create_future())
    waiting = plan(ASK, NEW, SETTINGS, Keys(awaited=frozenset([0]), pending=late)).plan
    assert (in_words(waiting), waiting.error) == ([], late)
    changed = serving(operator_hostname="gate")
    keys = Keys(awaited=frozenset([0]), pending=late)
    running = plan(ask_of(changed), replace(RUNNING, secrets=ASKING), changed, keys).plan
    assert (in_words(running), running.error) == ([MAKE], late)


def test_if_the_control_server_refuses_an_auth_key_the_plan_has_the_error_so_that_the_operator_asks_again() -> None:
    assert plan(ASK, NEW, SETTINGS, Refusal("no", error=ERROR, requeue_after=7.0)).plan.error is ERROR


IN_NEED = {
    "new": (NEW, True),
    "of a Go operator": (replace(NEW, secrets=ReplicaSecrets(state=GO)), False),
    "it runs": (RUNNING, False),
    "with a key": (replace(RUNNING, secrets=ReplicaSecrets(config("tskey-1"), state())), False),
    "asks for another key": (replace(RUNNING, secrets=ASKING), True),
    "has another key": (replace(RUNNING, secrets=ReplicaSecrets(config("new"), ASKING.state)), False),
    "the Secret is lost": (replace(RUNNING, secrets=ReplicaSecrets(config())), True),
}


@pytest.mark.parametrize(("observed", "in_need"), IN_NEED.values(), ids=IN_NEED)
def test_the_device_of_the_api_server_proxy_gets_an_auth_key_unless_it_can_log_in(
    observed: ObservedProxy, in_need: bool
) -> None:
    found = login(ASK, observed, SETTINGS)
    assert bool(found.in_need) is in_need
    assert [each.tags for each in found.replicas] == [("tag:k8s-operator",)]


def test_an_unused_auth_key_is_not_lost_when_the_hostname_of_the_api_server_proxy_changes() -> None:
    changed = serving(operator_hostname="gate")
    waiting = replace(RUNNING, secrets=ReplicaSecrets(config("tskey-1"), state()))
    assert login(ask_of(changed), waiting, changed).in_need


def served(endpoint: str, device_id: str = "nABC", capability_version: int = 142) -> ObservedProxy:
    """Return the facts about a proxy whose device has reported these values. *endpoint* is its HTTPS endpoint."""
    told = {"device_id": device_id, "tailscale_capver": str(capability_version), "https_endpoint": endpoint}
    reported = state(**{**REPORTED, **told})
    return replace(RUNNING, secrets=ReplicaSecrets(config(), reported))


def missing(*, asked: bool, missed_for: float = 600.0) -> ObservedProxy:
    missed = Certificate(is_there=False, asked=asked)
    return replace(
        RUNNING, certificate=ObservedCertificate(DEVICE.name, missed, utc_now(), missed_for, has_class=False)
    )


BOTH_WAYS_OUT = (
    "certificates at https://login.tailscale.com/admin/dns, which the proxy notices by itself, or set "
    'apiServerProxyConfig.http of the chart to "true"'
)
HTTP = serving(apiserver_proxy_http=True)
NUMBERED = replace(DEVICE, name="tailscale-operator-1.tail1234.ts.net")
HOLDER = Device("nXYZ", DEVICE.name, "tailscale-operator")
EVENTS: dict[str, tuple[ObservedProxy, Settings, list[tuple[str, str]]]] = {
    "all is well": (served(DEVICE.name), SETTINGS, []),
    "no HTTPS": (served("no-https"), SETTINGS, [("HTTPSNotEnabled", BOTH_WAYS_OUT)]),
    "no HTTPS, but HTTP": (served("no-https"), HTTP, []),
    "no HTTPS, and another Pod": (
        replace(served("no-https"), pods=[EARLIER, POD_OF_PROXY]),
        SETTINGS,
        [("HTTPSNotEnabled", BOTH_WAYS_OUT)],
    ),
    "no HTTPS of an earlier Pod": (replace(served("no-https"), pods=()), SETTINGS, []),
    "Headscale": (served("no-https", "12"), SETTINGS, [("UnsupportedByControlServer", "apiServerProxyConfig.http")]),
    "an old image": (
        served(DEVICE.name, capability_version=130),
        SETTINGS,
        [("ProxyImageTooOld", "set proxyConfig.image of the chart (PROXY_IMAGE) to a newer one")],
    ),
    "an image that is new enough": (served(DEVICE.name, capability_version=131), SETTINGS, []),
    "an old image of an earlier Pod": (
        replace(served(DEVICE.name, capability_version=130), pods=[EARLIER]),
        SETTINGS,
        [],
    ),
    "not approved": (
        replace(RUNNING, tailnet=seen(replace(DEVICE, authorized=False))),
        SETTINGS,
        [("DeviceApprovalNeeded", DEVICE.name)],
    ),
    "name taken": (
        replace(RUNNING, tailnet=replace(seen(NUMBERED), holders={"nABC": Holder(HOLDER)})),
        SETTINGS,
        [("NameHeld", "is held by device tailscale-operator.tail1234.ts.net (nXYZ)")],
    ),
    "nobody asked for a certificate": (missing(asked=False), SETTINGS, [("CertificatePending", DEVICE.name)]),
    "no certificate yet": (missing(asked=True, missed_for=599), SETTINGS, []),
    "no certificate": (missing(asked=True), SETTINGS, [("CertificateMissing", "what the log of its Pod says of ACME")]),
    "another auth key": (replace(RUNNING, secrets=ASKING), SETTINGS, [("AuthKeyReissued", "has been given")]),
    "a problem": (replace(RUNNING, account=None), SETTINGS, [("APIServerProxyFailed", "needs ServiceAccount")]),
    "a problem and a finding": (
        replace(served("no-https"), account=None),
        SETTINGS,
        [("HTTPSNotEnabled", "HTTPS"), ("APIServerProxyFailed", "needs ServiceAccount")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("observed", "given", "told"), EVENTS.values(), ids=EVENTS)
def test_an_event_on_the_operators_own_deployment_reports_each_fault_once(
    observed: ObservedProxy, given: Settings, told: list[tuple[str, str]]
) -> None:
    made = plan(ask_of(given), observed, given, Keys({0: "tskey-2"})).plan
    assert made.notes == ()
    (report,) = made.reports
    assert report.obj is observed.own
    assert [note.reason for note in report.notes] == [reason for reason, _ in told]
    assert all(words in note.message for note, (_, words) in zip(report.notes, told, strict=True))
    assert all(note.once for note in report.notes)


def test_the_messages_of_events_go_to_the_log_if_the_operator_has_no_deployment() -> None:
    made, problem, unsaid = plan(ASK, replace(NEW, own=None, account=None), SETTINGS)
    assert (made.notes, made.reports, unsaid) == ((), (), [problem])


def test_an_event_has_the_reason_and_the_message_of_a_refused_step_of_the_plan() -> None:
    theirs: Object = deployment()
    refusal = Refusal("no", "TagsRefused")
    assert failed(RUNNING, refusal).plan.reports == [
        Report(RUNNING.own or {}, notes=[Note("Warning", "TagsRefused", "no", once=True)])
    ]
    assert "is in the way" in failed(NEW, Refusal("no", step=Child(theirs), is_taken=True)).problem
    assert failed(replace(NEW, own=None), refusal).unsaid == ["no"]
