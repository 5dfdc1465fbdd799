"""The plan for a Recorder: its children, its status and its Events."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import PROXYGROUP, RECORDER, SERVICEACCOUNT, STATEFULSET, Key, Object, Resource
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.findings import DeviceFinding, Effect
from tsoperator.proxy.login import Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.reconcilers.recorder import plan as plans
from tsoperator.reconcilers.recorder.ask import Ask, parse
from tsoperator.reconcilers.recorder.plan import Observed
from tsoperator.runtime.ownership import Owner, owner_reference
from tsoperator.runtime.plan import Note, Plan, Refusal

from tests.operator.reconcilers.recorder.recorders import (
    NOTHING,
    OWNER,
    S3,
    SETTINGS,
    UI,
    device,
    joined,
    live_recorder,
    made,
    owned,
    plan_of,
    profile,
    secrets,
    statefulset_of,
)
from tests.support.objects import (
    OPERATOR_NAMESPACE,
    condition_of,
    deleted_devices,
    deleting,
    deletions_of,
    held,
    obj,
    patches_of,
    pod,
    reasons_of,
    slim_secret,
    status_of,
    stored,
    texts,
    whole_secret,
)
from tests.support.rows import Row, Said, play, said_by


def ready(made: Plan) -> tuple[str, str, str]:
    condition = condition_of(made)
    assert condition["type"] == "RecorderReady"
    return condition["status"], condition["reason"], condition["message"]


def ask_of(recorder: Object) -> Ask:
    return parse(recorder, SETTINGS)


def pod_with(**account: object) -> Object:
    return {"statefulSet": {"pod": {"serviceAccount": account}}}


S3_KEYS = whole_secret("s3-keys", {"AWS_ACCESS_KEY_ID": "x"})
BAD_KEY: Object = pod_with(annotations={"invalid spaces characters": "x"})


class Wrong(NamedTuple):
    """A Recorder that is invalid or needs the name of a foreign object in *given*, and words of its condition."""

    spec: Object
    words: str
    given: Sequence[Object] = ()

    def check(self, said: Said) -> None:
        status, reason, message = said.ready()
        assert (status, reason, self.words in message) == ("False", "RecorderInvalid", True), message
        assert (said.reasons, said.makes) == (["RecorderInvalid"], False)


WRONG = {
    "no UI and no S3": Wrong({"replicas": 3}, "nobody could get at its recordings: set enableUI, or storage.s3"),
    "several replicas on a disk": Wrong({"replicas": 3, **UI, **BAD_KEY}, "set storage.s3, or replicas to 1"),
    "a bad annotation": Wrong({"replicas": 3, **S3, **BAD_KEY}, '.spec.statefulSet.pod.serviceAccount.annotations: "i'),
    "a bad label": Wrong({**UI, "statefulSet": {"pod": {"labels": {"a": "-"}}}}, '.spec.statefulSet.pod.labels: "-"'),
    "too many replicas": Wrong({"replicas": 101, **S3}, "must be at most 100, not 101: lower it, or make another Rec"),
    "no number": Wrong({"replicas": "many"}, "spec.replicas"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_an_invalid_recorder_reports_its_fault_in_its_condition_and_keeps_its_pods(case: Wrong) -> None:
    devices = {"devices": [{"hostname": "rec-0"}]}
    refusal = plan_of(live_recorder(case.spec) | {"status": devices}, joined(0))
    case.check(said_by(refusal))
    _, reason, message = ready(refusal)
    assert message.startswith("this Recorder is invalid: ")
    assert refusal == Plan(status=refusal.status, notes=[Note("Warning", reason, message)])
    assert status_of(refusal)["devices"] == devices["devices"]


@pytest.mark.parametrize(("name", "wrong"), [("a" * 52, False), ("a" * 53, True), ("eu.rec", True)])
def test_a_recorder_is_refused_if_its_pods_would_have_invalid_names(name: str, wrong: bool) -> None:
    assert ("a DNS label of at most 52" in ready(plan_of(live_recorder(name=name)))[2]) is wrong


def test_a_valid_recorder_gets_its_children_and_is_ready() -> None:
    planned = plan_of(live_recorder({"replicas": 3, **S3}, generation=7), keys=Keys({n: f"key-{n}" for n in range(3)}))
    assert (planned.hold, ready(planned)) == (FINALIZER, ("True", "RecorderCreated", "RecorderCreated"))
    assert status_of(planned)["conditions"][0]["observedGeneration"] == 7
    kinds = [f"{each.obj['kind']} {each.obj['metadata']['name']}" for each in planned.steps]  # type: ignore[union-attr]
    numbered = [f"Secret rec{infix}-{n}" for n in range(3) for infix in ("-auth", "")]
    assert kinds == ["ServiceAccount rec", "Role rec", "RoleBinding rec", *numbered, "StatefulSet rec"]
    found = made(live_recorder({"replicas": 3, **S3}))
    for child in found.values():
        assert child["metadata"]["labels"] == OWNER.labels
        assert child["metadata"]["ownerReferences"] == [owner_reference(RECORDER, "rec", "rec-uid")]


def test_an_auth_secret_of_a_recorder_has_nothing_but_the_auth_key_of_its_replica() -> None:
    planned = plan_of(live_recorder(), keys=Keys({0: "new-authkey"}))
    found = {each.obj["metadata"]["name"]: texts(each.obj) for each in planned.steps}  # type: ignore[union-attr]
    assert (found["rec-auth-0"], found["rec-0"]) == ({"authkey": "new-authkey"}, {})


def test_the_role_of_a_recorder_names_only_the_secrets_of_its_replicas() -> None:
    leaving = replace(NOTHING, children=Children(secrets=secrets(4)))
    role = made(live_recorder({"replicas": 1, **UI}), leaving)[("Role", "rec")]
    own, events = role["rules"]
    assert (own["verbs"], own["resourceNames"]) == (
        ["get", "patch", "update"],
        ["rec-0", "rec-auth-0", "rec-4", "rec-auth-4"],
    )
    assert (events["resources"], events["verbs"]) == (["events"], ["get", "create", "patch"])
    assert made(live_recorder({"replicas": 0, **UI}))[("Role", "rec")]["rules"] == [events]


@pytest.mark.parametrize(
    ("given", "tags"), [({}, ("tag:k8s",)), ({"tags": []}, ("tag:k8s",)), ({"tags": ["tag:a"]}, ("tag:a",))]
)
def test_the_default_tag_of_recorders_does_not_depend_on_the_settings(given: Object, tags: tuple[str, ...]) -> None:
    settings = replace(SETTINGS, proxy_tags=("tag:other",))
    proxy = plans.wanted(ask_of(live_recorder({**UI, **given})), NOTHING, settings)
    assert isinstance(proxy, Proxy)
    assert tuple(proxy.tags) == tags


class Renamed(NamedTuple):
    """The ServiceAccount that a live StatefulSet names, and the number of its Pods that are *updated*.

    *account* is the part of a Recorder's spec that names the account; empty for the old account. *goes* tells whether
    the plan deletes the old account.
    """

    updated: int
    account: Object
    goes: bool


RENAMED = {
    "Pods still run under the old one": Renamed(0, pod_with(name="test-sa"), False),
    "no Pod needs the old one": Renamed(1, pod_with(name="test-sa"), True),
    "the StatefulSet names the old one": Renamed(1, {}, False),
}


@pytest.mark.parametrize("case", RENAMED.values(), ids=RENAMED)
def test_a_service_account_of_an_earlier_name_is_deleted_when_no_pod_uses_the_account(case: Renamed) -> None:
    old = owned(stored(made(live_recorder())[("ServiceAccount", "rec")]))
    live = statefulset_of({**UI, **case.account}, replicas=1, updatedReplicas=case.updated)
    observed = Observed(Children(statefulsets=[live]), accounts=[old])
    spec = {**UI, **pod_with(name="test-sa", annotations={"example.org/role": "x"})}
    (account,) = (child for (kind, _), child in made(live_recorder(spec), observed).items() if kind == "ServiceAccount")
    assert account["metadata"]["name"] == "test-sa"
    assert account["metadata"]["annotations"]["example.org/role"] == "x"
    gone = [each.obj["metadata"]["name"] for each in deletions_of(plan_of(live_recorder(spec), observed))]
    assert gone == (["rec"] if case.goes else [])
    assert made(live_recorder(spec), observed)[("RoleBinding", "rec")]["subjects"][0]["name"] == "test-sa"


def named(resource: Resource, name: str, **metadata: object) -> Object:
    return obj(resource, Key(OPERATOR_NAMESPACE, name), {}, **metadata)


OTHERS = {"ownerReferences": [owner_reference(RECORDER, "other", "other-uid")]}
GROUPS = {"ownerReferences": [owner_reference(PROXYGROUP, "rec", "rec-uid")]}


NAMING = {**UI, **pod_with(name="test-sa")}
OF_GROUP, OF_OTHER = (
    owner.labels for owner in (Owner("proxygroup", Key("", "rec")), Owner("recorder", Key("", "other")))
)
STRANGERS = {
    "a ProxyGroup's": Wrong(
        NAMING, "StatefulSet tailscale/rec is in the way", [named(STATEFULSET, "rec", labels=OF_GROUP, **GROUPS)]
    ),
    "a ProxyGroup's by its labels": Wrong(
        NAMING, "StatefulSet tailscale/rec is in the way", [named(STATEFULSET, "rec", labels=OF_GROUP)]
    ),
    "another Recorder's": Wrong(
        NAMING,
        "ServiceAccount tailscale/test-sa is in the way",
        [named(SERVICEACCOUNT, "test-sa", labels=OF_OTHER, **OTHERS)],
    ),
    "a Secret of the last replica": Wrong(
        {"replicas": 2, **S3}, "Secret tailscale/rec-1 is in the way", [whole_secret("rec-1", {}, OF_OTHER)]
    ),
}


@pytest.mark.parametrize("case", STRANGERS.values(), ids=STRANGERS)
def test_a_recorder_names_the_foreign_object_that_has_the_name_of_a_child(case: Wrong) -> None:
    refusal = plan_of(live_recorder(case.spec), replace(NOTHING, named=case.given))
    case.check(said_by(refusal))
    assert ("spec.statefulSet.pod.serviceAccount.name" in ready(refusal)[2]) == (case.spec is NAMING)
    assert (refusal.steps, refusal.hold, refusal.requeue_after) == ((), "", plans.FREED)


@pytest.mark.virtual_time
async def test_a_recorder_on_a_cluster_has_the_status_and_the_events_of_its_plan() -> None:
    wrong = {name: Row(live_recorder(case.spec), case.check, case.given) for name, case in (WRONG | STRANGERS).items()}
    storage = {
        name: Row(live_recorder({"storage": {"s3": case.s3}}), case.check, [] if case.lacks else [S3_KEYS])
        for name, case in STORAGE.items()
    }
    await play(wrong | storage)


def test_a_recorder_reports_that_an_object_that_no_operator_made_has_the_name_of_a_child() -> None:
    error = ValueError("409")
    told = plans.failed(
        ask_of(live_recorder()), NOTHING, Refusal("ServiceAccount x is in the way", "", error, is_taken=True)
    )
    assert ready(told) == ("False", "RecorderInvalid", "ServiceAccount x is in the way")
    assert (told.error, reasons_of(told)) == (error, ["RecorderInvalid"])


def test_a_recorder_reports_a_failed_step_of_its_plan_and_tries_the_step_again() -> None:
    error = ValueError("no")
    told = plans.failed(ask_of(live_recorder()), NOTHING, Refusal("no", "", error))
    assert (ready(told), told.error) == (("False", "RecorderCreationFailed", "no"), error)
    named = plans.failed(ask_of(live_recorder()), NOTHING, Refusal("no", "UnsupportedByControlServer", error))
    assert ready(named)[1] == "UnsupportedByControlServer"
    assert ready(plan_of(live_recorder(), keys=Refusal("no key", "", error)))[1:] == (
        "RecorderCreationFailed",
        "no key",
    )


def shown(ordinal: int) -> Object:
    return {
        "hostname": f"rec-{ordinal}",
        "tailnetIPs": [f"100.64.0.{ordinal}"],
        "url": f"https://test-{ordinal}.example.ts.net",
    }


def test_the_status_of_a_recorder_shows_the_devices_as_the_control_server_lists_them() -> None:
    assert status_of(plan_of(live_recorder({"replicas": 3, **S3}), joined(0, 1, 2)))["devices"] == [
        *map(shown, range(3))
    ]
    some = replace(joined(0, 2), children=joined(0, 1, 2).children)  # replica 1 has just logged in
    assert status_of(plan_of(live_recorder({"replicas": 3, **S3}), some))["devices"] == [shown(0), shown(2)]


@pytest.mark.parametrize(
    ("hostnames", "shown"), [(["a", "a"], ["a"]), (["", ""], ["test-0", "test-1"])], ids=["twice", "untold"]
)
def test_the_status_of_a_recorder_lists_each_hostname_once(hostnames: list[str], shown: list[str]) -> None:
    devices = {f"node-{n}": replace(device(n), hostname=hostname) for n, hostname in enumerate(hostnames)}
    observed = replace(joined(0, 1), tailnet=TailnetView(devices=devices))
    found = status_of(plan_of(live_recorder({"replicas": 2, **S3}), observed))["devices"]
    assert [each["hostname"] for each in found] == shown


def test_the_url_in_the_status_of_a_recorder_is_not_taken_from_the_login_name() -> None:
    children = Children(secrets=secrets(0, profile(0, "tagged-devices")))
    status = status_of(plan_of(live_recorder(), replace(joined(0), children=children)))
    assert status["devices"] == [shown(0)]


def test_the_status_of_a_recorder_keeps_its_devices_until_the_list_of_devices_has_been_read() -> None:
    old = {"status": {"devices": [shown(0), shown(1)]}}
    two = live_recorder({"replicas": 2, **S3}) | old
    assert status_of(plan_of(two, joined(0, 1, listed=False)))["devices"] == [shown(0), shown(1)]
    assert status_of(plan_of(two, joined(0, listed=False)))["devices"] == [shown(0)]
    gone = replace(joined(0), children=joined(0, 1).children)
    assert status_of(plan_of(two, gone))["devices"] == [shown(0)]


@pytest.mark.parametrize(("key", "words"), [("new-authkey", "A new auth key has been given"), ("", "within 30 s")])
def test_a_recorder_whose_replica_logs_in_again_is_not_ready_and_names_the_replica(key: str, words: str) -> None:
    asking = [*secrets(0, profile(0)), *secrets(1, {**profile(1), "reissue_authkey": "old"})]
    planned = plan_of(live_recorder({"replicas": 2, **S3}), Observed(Children(secrets=asking)), keys=Keys({1: key}))
    status, reason, message = ready(planned)
    assert (status, reason) == ("False", "RecorderCreating")
    assert message.startswith("replica 1 could not log in")
    assert words in message
    given = {patch.key.name: texts(patch.body) for patch in patches_of(planned)}
    assert given == ({"rec-auth-1": {"authkey": key}} if key else {})


def test_a_recorders_auth_secret_without_data_gets_an_empty_auth_key_that_pods_can_mount() -> None:
    state, _ = secrets(0, profile(0))
    for data in ({}, {"other": "x"}):
        empty = owned(slim_secret("rec-auth-0", data, OWNER.labels))
        planned = plan_of(live_recorder(), Observed(Children(secrets=[state, empty])))
        assert [texts(patch.body) for patch in patches_of(planned)] == [{"authkey": ""}]


class Storage(NamedTuple):
    """A spec of S3 storage, whether its Secret is missing (*lacks*), and the *status* and *words* of the condition."""

    s3: Object
    lacks: bool
    status: str
    words: str

    def check(self, said: Said) -> None:
        status, _, message = said.ready()
        assert (status, self.words in message, said.makes) == (self.status, True, True), message


STORAGE = {
    "all is set": Storage(S3["storage"]["s3"], False, "True", "RecorderCreated"),
    "the Secret isn't there": Storage(S3["storage"]["s3"], True, "False", "Secret s3-keys isn't there, from which"),
    "no credentials": Storage({"endpoint": "e", "bucket": "b"}, False, "True", "spec.storage.s3.credentials is not"),
    "a URL": Storage(
        {**S3["storage"]["s3"], "endpoint": "https://s3.example.org/b"},
        False,
        "True",
        'spec.storage.s3.endpoint is "https://s3.example.org/b", and must be only a host: write s3.example.org',
    ),
    "nothing": Storage({}, False, "True", "endpoint and spec.storage.s3.bucket and spec.storage.s3.credentials are"),
}


@pytest.mark.parametrize("case", STORAGE.values(), ids=STORAGE)
def test_a_recorder_names_the_missing_part_of_its_storage(case: Storage) -> None:
    planned = plan_of(live_recorder({"storage": {"s3": case.s3}}), replace(NOTHING, lacks_credentials=case.lacks))
    case.check(said_by(planned))
    assert len(planned.steps) == 6


@pytest.mark.parametrize(
    "pod",
    [
        {"serviceAccount": {"name": "cloud"}},
        {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "x"}}},
        {"container": {"env": [{"name": "AWS_ACCESS_KEY_ID", "value": "x"}]}},
    ],
    ids=["account", "annotation", "variable"],
)
def test_the_credentials_for_a_recorders_storage_need_not_come_from_a_secret_in_its_spec(pod: Object) -> None:
    spec = {"storage": {"s3": {"endpoint": "e", "bucket": "b"}}, "statefulSet": {"pod": pod}}
    assert ready(plan_of(live_recorder(spec))) == ("True", "RecorderCreated", "RecorderCreated")


def test_a_recorder_whose_pod_labels_change_gets_another_statefulset() -> None:
    live = statefulset_of(UI)
    labelled = live_recorder({**UI, "statefulSet": {"pod": {"labels": {"team": "a"}}}})
    planned = plan_of(labelled, Observed(Children(statefulsets=[live])))
    (gone,) = deletions_of(planned)
    assert (gone.obj, gone.propagation, planned.hold) == (live, "Foreground", FINALIZER)
    assert not deletions_of(plan_of(live_recorder(), Observed(Children(statefulsets=[live]))))


def test_a_recorder_reports_findings_about_its_devices_in_its_condition_and_by_events() -> None:
    news = [DeviceFinding(Effect.FAILED, "TagsRefused", "not permitted", requeue_after=60)]
    planned = plan_of(live_recorder(), replace(NOTHING, tailnet=TailnetView(news=news)))
    assert ready(planned) == ("False", "RecorderCreationFailed", "not permitted")
    assert (reasons_of(planned), planned.requeue_after) == (["TagsRefused"], 60)


UNUSABLE = TailnetView("other", refusal=Refusal("Tailnet 'other' can't be used: there is none"))
UNTRIED = TailnetView("other", pending=ValueError("waiting"))


def test_a_recorder_reports_that_its_tailnet_cannot_be_used() -> None:
    refusal = plan_of(live_recorder({**UI, "tailnet": "other"}), replace(NOTHING, tailnet=UNUSABLE))
    assert ready(refusal)[:2] == ("False", "RecorderTailnetUnavailable")
    assert (refusal.steps, reasons_of(refusal)) == ((), ["RecorderTailnetUnavailable"])


def test_a_recorder_writes_no_status_while_it_waits_for_the_control_server() -> None:
    assert plan_of(live_recorder(), replace(NOTHING, tailnet=UNTRIED)) == Plan(error=UNTRIED.pending)
    keys = Keys(awaited=frozenset({0}), pending=ValueError("waiting"))
    assert plan_of(live_recorder(), keys=keys) == Plan(error=keys.pending)


class End(NamedTuple):
    """The facts about a deleted Recorder, the devices that its plan deletes, and the reason of its condition."""

    observed: Observed
    devices: list[str]
    reason: str = ""


ENDS = {
    "all replicas have devices": End(
        replace(joined(0, 1, 2), children=replace(joined(0, 1, 2).children, pods=[])), ["node-0", "node-1", "node-2"]
    ),
    "the first has no device": End(
        Observed(Children(secrets=[*secrets(0), *secrets(1, profile(1)), *secrets(2, profile(2))])),
        ["node-1", "node-2"],
    ),
    "its Tailnet is unusable": End(Observed(Children(secrets=secrets(0, profile(0))), tailnet=UNUSABLE), ["node-0"]),
    "its Tailnet is untried": End(
        Observed(Children(secrets=secrets(0, profile(0))), tailnet=UNTRIED), ["node-0"], "RecorderTailnetUnavailable"
    ),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("finalizer", [True, False], ids=["held", "finalizer taken off"])
def test_a_deleted_recorder_is_released_after_the_devices_of_all_replicas_are_deleted(
    case: End, finalizer: bool
) -> None:
    live = live_recorder({**UI, "tailnet": "other"})
    planned = plan_of(deleting(held(live) if finalizer else live), case.observed)
    assert (deleted_devices(planned), planned.release) == (case.devices, FINALIZER)
    assert (ready(planned)[1] if planned.status else "") == case.reason
    assert "if the control server is gone for good, delete Secret tailscale/rec-" in planned.way_out


def test_a_deleted_recorder_waits_until_its_pods_have_ended() -> None:
    managed = pod("rec-0", "p0")
    managed["metadata"]["ownerReferences"] = [{"kind": "StatefulSet"}]
    observed = replace(
        joined(0), children=replace(joined(0).children, pods=[managed], statefulsets=[statefulset_of(UI)])
    )
    planned = plan_of(deleting(held(live_recorder())), observed)
    assert (deleted_devices(planned), planned.release) == ([], "")
    assert ready(planned)[1:] == (
        "RecorderTerminating",
        "it is being removed: waiting for Pod tailscale/rec-0 to end",
    )


def test_a_recorder_whose_devices_cannot_be_deleted_has_a_condition_about_its_unusable_tailnet() -> None:
    obj = deleting(held(live_recorder({**UI, "tailnet": "other"})))
    told = plans.failed(ask_of(obj), Observed(Children(), tailnet=UNUSABLE), Refusal("gone"))
    assert ready(told)[1] == "RecorderTailnetUnavailable"


def test_a_deleted_recorder_without_children_is_released_at_once() -> None:
    assert plan_of(deleting(live_recorder())) == Plan()


def test_the_secrets_and_the_device_of_a_surplus_recorder_replica_are_deleted_when_no_pod_needs_them() -> None:
    spec = {"replicas": 1, **S3}
    for updated, gone in ((0, []), (1, ["node-1"])):
        live = statefulset_of(spec, replicas=1, updatedReplicas=updated)
        children = replace(joined(0, 1).children, statefulsets=[live], pods=[pod("rec-0", "p0")])
        planned = plan_of(live_recorder(spec), replace(joined(0, 1), children=children))
        assert deleted_devices(planned) == gone
        names = [each.obj["metadata"]["name"] for each in deletions_of(planned)]
        assert names == (["rec-1", "rec-auth-1"] if gone else [])


FIELDS: dict[str, st.SearchStrategy[object]] = {
    "enableUI": st.booleans() | st.text(),
    "replicas": st.integers(-1, 3),
    "storage": st.none() | st.just(S3["storage"]) | st.text(),
    "tags": st.lists(st.text(max_size=9), max_size=2),
    "statefulSet": st.none() | st.just({"pod": {}}) | st.text(),
}


@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_the_operator_can_make_a_plan_for_a_recorder_with_any_spec(spec: Object) -> None:
    live = stored(held(live_recorder(spec)))
    wanted = plans.wanted(ask_of(live), NOTHING, SETTINGS)
    if isinstance(wanted, Proxy):
        assert len(made(live)) == 4 + 2 * wanted.replica_count
    assert plan_of(deleting(live)).release == FINALIZER


@pytest.mark.parametrize("given", ["annotations", "labels"])
@pytest.mark.parametrize(("key", "field"), [("tags", "spec.tags"), ("proxy-class", "spec.statefulSet")])
def test_an_event_names_an_ineffective_annotation_or_label_of_a_recorder(given: str, key: str, field: str) -> None:
    marked = live_recorder()
    marked["metadata"][given] = {f"tailscale.com/{key}": "x"}
    (told,) = plan_of(marked).notes
    assert (told.once, told.message.endswith(f"Recorder: write {field} instead")) == (True, True)
    assert not plan_of(deleting(marked)).notes
