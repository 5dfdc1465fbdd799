"""The lines of the log about objects: which changes they tell, and that they tell each once."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.names import ANNOTATION_DIGEST, FINALIZER
from tsoperator.api.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    ENDPOINTSLICE,
    SECRET,
    SERVICE,
    STATEFULSET,
    Key,
    Object,
    Resource,
    resource_of,
)
from tsoperator.desired.children import Owner
from tsoperator.desired.plan import (
    Child,
    Creation,
    DeleteDevice,
    Deletion,
    FindNodePorts,
    FreeName,
    Note,
    Outline,
    Patch,
    Plan,
)
from tsoperator.kube.errors import Denied, Unreachable
from tsoperator.runtime.cache import Listener
from tsoperator.runtime.journal import Journal, Write, changed_fields, is_taken_over

CHILD = Key("tailscale", "ts-db")
OUTLINE = Outline("default-db")
DEVICE = ("db.tail1234.ts.net", "100.64.0.7")
READY = Outline("default-db", "", (DEVICE,))
MADE = Write("made", STATEFULSET, CHILD)
INVALID = Note("Warning", "Invalid", "no such tag")
LEFT_OUT = Note("Warning", "LeftOut", "path /a")
NEWS = Note("Normal", "Renamed", "has another name")


def parent(uid: str = "1", kind: str = "Service", **fields: Any) -> Object:
    metadata = {"namespace": "default", "name": "db", "uid": uid, **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


PARENT = parent()


def status(is_true: bool, reason: str = "Fine", kind: str = "Ready", message: str = "in words") -> Object:
    return {"conditions": [condition(kind, is_true, reason, message)]}


@dataclass(frozen=True)
class Book:
    """A journal, and the log that it writes into."""

    journal: Journal
    log: pytest.LogCaptureFixture

    def told(self) -> list[str]:
        """Return the lines so far, without the name of the object that all are about, and forget them."""
        found = [message.removeprefix("Service default/db: ") for message in self.log.messages]
        self.log.clear()
        return found

    def carried_out(self, plan: Plan, *writes: Write, parent: Object = PARENT, whole: bool = True) -> list[str]:
        """Let *plan* be carried out, and return what is told of that."""
        self.log.clear()
        self.journal.carried_out(parent, plan, writes, whole=whole)
        return self.told()

    def reported(self, before: Object | None, after: Object, plan: Plan, kind: str = "Service") -> list[str]:
        """Let the status of an object turn, and return what is told of that."""
        self.log.clear()
        self.journal.reported(parent(kind=kind, status=before), after, plan)
        return self.told()


@pytest.fixture
def book(caplog: pytest.LogCaptureFixture) -> Book:
    caplog.set_level(logging.INFO, "tsoperator")
    return Book(Journal(lambda _resource, _listener: None), caplog)


class Written(NamedTuple):
    writes: Sequence[Write]
    words: str
    outline: Outline | None = None
    kind: str = "Service"


def changed(resource: Resource, before: Object, after: Object) -> Write:
    return Write("changed", resource, CHILD, before, after)


@pytest.mark.parametrize(
    "case",
    [
        Written([], ""),
        Written([MADE], "made StatefulSet tailscale/ts-db"),
        Written([MADE], "made StatefulSet tailscale/ts-db (hostname default-db)", OUTLINE),
        Written([Write("made", SERVICE, CHILD), MADE], "made StatefulSet tailscale/ts-db"),
        Written([Write("made", DEPLOYMENT, CHILD)], "made Deployment tailscale/ts-db"),
        Written([Write("made", SERVICE, CHILD)], "made Service tailscale/ts-db"),
        Written([Write("made", ENDPOINTSLICE, CHILD), Write("made", CONFIGMAP, CHILD)], ""),
        Written([changed(CONFIGMAP, {"data": {"a": "1"}}, {"data": {"a": "2"}})], ""),
        Written(
            [Write("changed", CONFIGMAP, CHILD, None, {"data": {}}, "the stub domain")],
            "changed the stub domain (ConfigMap tailscale/ts-db)",
        ),
        Written([Write("made", SECRET, CHILD)], "made Secret tailscale/ts-db"),
        Written([changed(SECRET, {}, {"data": {"key": "secret"}})], ""),
        Written(
            [Write("changed", SECRET, CHILD, None, {"data": {"key": "secret"}}, "the configuration of the proxy")],
            "changed the configuration of the proxy (Secret tailscale/ts-db)",
        ),
        Written(
            [changed(STATEFULSET, {"spec": {"replicas": 1}}, {"spec": {"replicas": 2}})],
            "changed StatefulSet tailscale/ts-db (spec.replicas)",
        ),
        Written([changed(STATEFULSET, {}, {"metadata": {"labels": {"a": "b"}}})], ""),
        Written(
            [changed(STATEFULSET, {}, {"spec": dict.fromkeys("abcdef", 1)})],
            "changed StatefulSet tailscale/ts-db (spec.a, spec.b, spec.c, spec.d and 2 more)",
        ),
        Written(
            [changed(STATEFULSET, {}, {"spec": dict.fromkeys("abcd", 1)})],
            "changed StatefulSet tailscale/ts-db (spec.a, spec.b, spec.c, spec.d)",
        ),
        Written(
            [Write("took over", STATEFULSET, CHILD), Write("took over", SERVICE, CHILD)],
            "took over StatefulSet tailscale/ts-db, Service tailscale/ts-db",
        ),
        Written(
            [changed(SERVICE, {}, {"spec": {"a": 1}}), Write("made", SERVICE, CHILD)],
            "made Service tailscale/ts-db; changed Service tailscale/ts-db (spec.a)",
        ),
        Written([changed(SERVICE, {}, {"spec": {"a": 1}})], "", None, "Pod"),
    ],
)
def test_a_line_tells_what_was_made_and_which_fields_changed(case: Written, book: Book) -> None:
    told = book.carried_out(Plan(outline=case.outline), *case.writes, parent=parent(kind=case.kind))
    assert told == [case.words] * bool(case.words)


class Course(NamedTuple):
    """The outlines of a proxy, one plan after the other, and what is told of the last one."""

    outlines: Sequence[Outline | None]
    words: str
    is_made: bool = True


OTHER = ("db-1.tail1234.ts.net", "100.64.0.8")


@pytest.mark.parametrize(
    "case",
    [
        Course([OUTLINE, READY], "ready as db.tail1234.ts.net (100.64.0.7)"),
        Course([OUTLINE, READY, READY], ""),
        Course([OUTLINE, READY], "ready as db.tail1234.ts.net (100.64.0.7)", is_made=False),
        Course([READY], "", is_made=False),
        Course([READY, OUTLINE], "no longer ready as db.tail1234.ts.net", is_made=False),
        Course(
            [READY, Outline("default-db", "", (OTHER,))],
            "ready as db-1.tail1234.ts.net (100.64.0.8); no longer as db.tail1234.ts.net",
            is_made=False,
        ),
        Course(
            [OUTLINE, Outline("default-db", "", (DEVICE, OTHER))],
            "ready as db.tail1234.ts.net (100.64.0.7) and db-1.tail1234.ts.net (100.64.0.8)",
        ),
        Course(
            [READY, Outline("default-db", "", ((DEVICE[0], "100.64.0.9"),))],
            "ready as db.tail1234.ts.net (100.64.0.9)",
            is_made=False,
        ),
        Course([OUTLINE, Outline("db")], "changed its hostname from default-db to db"),
        Course([OUTLINE, Outline("default-db", "10.0.0.0/8")], "changed its routes from none to 10.0.0.0/8"),
        Course([Outline("a", "10.0.0.0/8"), Outline("a")], "changed its routes from 10.0.0.0/8 to none"),
        Course([READY, None], "", is_made=False),
        Course([READY, None, READY], "", is_made=False),
    ],
)
def test_a_line_tells_when_a_proxy_becomes_ready_and_what_it_asks_for(case: Course, book: Book) -> None:
    writes = [[MADE] if case.is_made else [], *[[]] * len(case.outlines)]
    told = [
        book.carried_out(Plan(outline=outline), *wrote) for outline, wrote in zip(case.outlines, writes, strict=False)
    ]
    assert told[-1] == [case.words] * bool(case.words)


def test_a_proxy_that_is_made_with_its_device_there_is_ready_in_the_same_line(book: Book) -> None:
    made = "made StatefulSet tailscale/ts-db (hostname default-db)"
    told = book.carried_out(Plan(outline=READY), MADE)
    assert told == [f"{made}; ready as db.tail1234.ts.net (100.64.0.7)"]


class Noted(NamedTuple):
    """The notes of plans, one after the other, and what is told of the last one."""

    notes: Sequence[Sequence[Note]]
    words: Sequence[str]


@pytest.mark.parametrize(
    "case",
    [
        Noted([[INVALID]], ["Invalid: no such tag"]),
        Noted([[INVALID], [INVALID]], []),
        Noted([[INVALID], []], ["no longer Invalid"]),
        Noted([[INVALID], [], [INVALID]], ["Invalid: no such tag"]),
        Noted([[INVALID, LEFT_OUT], []], ["no longer Invalid and LeftOut"]),
        Noted([[INVALID, LEFT_OUT], [LEFT_OUT]], ["no longer Invalid"]),
        Noted([[INVALID], [Note("Warning", "Invalid", "no such\n class")]], ["Invalid: no such class"]),
        Noted([[INVALID, INVALID]], ["Invalid: no such tag"]),
        Noted([[NEWS]], []),
        Noted([[], [NEWS]], []),
        Noted([[INVALID], [INVALID, NEWS]], ["Renamed: has another name"]),
        Noted([[INVALID], [INVALID, NEWS], [INVALID]], []),
    ],
)
def test_a_refusal_is_told_when_it_begins_and_when_it_ends(case: Noted, book: Book) -> None:
    told = [book.carried_out(Plan(notes=notes)) for notes in case.notes]
    assert told[-1] == case.words


class News(NamedTuple):
    """The status beside a note that is no warning, and whether it is told of an object that is made, seen or known."""

    status: Object
    outline: Outline | None
    made: bool
    seen: bool
    known: bool


@pytest.mark.parametrize(
    "case",
    [
        News({}, OUTLINE, True, False, True),
        News(status(True, message="has another name"), OUTLINE, True, False, True),
        News(status(True, "Renamed"), OUTLINE, False, False, False),
        News(status(True, "Renamed"), None, True, False, True),
        News(status(False, "Renamed"), OUTLINE, True, False, True),
        News(status(False, message="it waits, and has another name"), OUTLINE, False, True, True),
    ],
)
def test_news_is_told_unless_it_is_old_or_clear(case: News, book: Book) -> None:
    plan, line = Plan(notes=[NEWS], status=case.status, outline=case.outline), "Renamed: has another name"
    found = [line in book.carried_out(plan, MADE)]
    book.journal.released(PARENT)
    found.append(line in book.carried_out(plan))
    book.journal.released(PARENT)
    book.carried_out(Plan(notes=[INVALID]))
    assert [*found, line in book.carried_out(plan)] == [case.made, case.seen, case.known]


def test_a_refusal_is_a_warning_and_news_is_not(book: Book) -> None:
    for notes in ([INVALID], [INVALID, NEWS], []):
        book.journal.carried_out(PARENT, Plan(notes=notes), ())
    assert [record.levelname for record in book.log.records] == ["WARNING", "INFO", "INFO"]


class Lasting(NamedTuple):
    then: Plan
    whole: bool = True
    before: Object | None = None
    words: Sequence[str] = ()


@pytest.mark.parametrize(
    "case",
    [
        Lasting(Plan(status=status(False, "Invalid"))),
        Lasting(Plan(), before=status(False, "Invalid")),
        Lasting(Plan(status=status(False, "Waits", message="it waits: no such tag"))),
        Lasting(Plan(status=status(True)), before=status(False, "Invalid"), words=["no longer Invalid"]),
        Lasting(Plan(notes=[LEFT_OUT]), whole=False, words=["LeftOut: path /a"]),
        Lasting(Plan(notes=[LEFT_OUT], error=OSError()), words=["LeftOut: path /a"]),
        Lasting(Plan(notes=[LEFT_OUT]), words=["LeftOut: path /a", "no longer Invalid"]),
    ],
)
def test_a_refusal_lasts_while_a_condition_says_so_and_while_another_hides_it(case: Lasting, book: Book) -> None:
    book.carried_out(Plan(notes=[INVALID]))
    assert book.carried_out(case.then, parent=parent(status=case.before), whole=case.whole) == [*case.words]
    assert ("no longer Invalid" in "".join(book.carried_out(Plan()))) is ("no longer Invalid" not in case.words)


def test_conditions_of_pods_have_neither_reason_nor_message(book: Book) -> None:
    pod = parent(kind="Pod", status={"conditions": [{"type": "Ready", "status": "True"}]})
    for notes in ([INVALID, NEWS], [NEWS], []):
        book.journal.carried_out(pod, Plan(notes=notes), ())
    assert book.told() == ["Pod default/db: Invalid: no such tag", "Pod default/db: no longer Invalid"]


def test_the_end_of_a_refusal_is_not_told_of_an_object_that_goes(book: Book) -> None:
    book.carried_out(Plan(notes=[INVALID]))
    assert book.carried_out(Plan(), parent=parent(metadata={"deletionTimestamp": "t"})) == []


def test_an_object_that_was_made_anew_is_another_one(book: Book) -> None:
    for uid in "12":
        assert book.carried_out(Plan(notes=[INVALID]), parent=parent(uid)) == ["Invalid: no such tag"]


def test_nothing_is_told_of_a_parent_that_vanished(book: Book) -> None:
    assert book.carried_out(Plan(notes=[INVALID]), MADE, parent={}) == []


class Shown(NamedTuple):
    before: Object | None
    after: Object
    words: str = ""
    plan: Plan = Plan()
    kind: str = "Service"


@pytest.mark.parametrize(
    "case",
    [
        Shown(None, status(True), "Ready is True now"),
        Shown(status(False), status(True), "Ready is True now"),
        Shown(status(True), status(True)),
        Shown(None, status(False)),
        Shown(status(False), status(False, "Other")),
        Shown(status(True), status(False, "Gone"), "Ready is False: Gone: in words"),
        Shown(status(True), status(False, "Invalid"), "", Plan(notes=[INVALID])),
        Shown(status(True), status(False, "Gone"), "Ready is False: Gone: in words", Plan(notes=[INVALID])),
        Shown(status(True), status(False, "Gone"), "", Plan(notes=[Note("Warning", "Other", "words")])),
        Shown(status(True), status(False, "Gone"), "", Plan(notes=[Note("Normal", "Gone", "in words")])),
        Shown(None, status(True), "", Plan(outline=OUTLINE)),
        Shown(None, status(True), "", Plan(), "Pod"),
        Shown(status(True), {}),
        Shown(
            None,
            {"conditions": [*status(True)["conditions"], *status(True, kind="Valid")["conditions"]]},
            "Ready, Valid are True now",
        ),
    ],
)
def test_a_line_tells_which_conditions_turn(case: Shown, book: Book) -> None:
    told = book.reported(case.before, case.after, case.plan, case.kind)
    assert told == [case.words] * bool(case.words)


def test_a_proxy_that_was_not_ready_for_a_while_is_told_to_be_so_again(book: Book) -> None:
    plan = Plan(outline=READY)
    book.carried_out(plan)
    turns = ((True, False), (False, True), (False, True))
    told = [book.reported(status(before), status(after), plan) for before, after in turns]
    assert told == [["Ready is False: Fine: in words"], ["Ready is True now"], []]


def test_a_condition_that_a_warning_told_of_ends_with_the_warning(book: Book) -> None:
    warned, well = Plan(notes=[INVALID], outline=READY), Plan(outline=READY)
    assert book.carried_out(warned) == ["Invalid: no such tag"]
    assert book.reported(status(True), status(False, "Invalid"), warned) == []
    assert book.carried_out(well) == ["no longer Invalid"]
    assert book.reported(status(False), status(True), well) == []


def test_a_condition_that_a_note_told_of_is_told_when_it_is_true_again(book: Book) -> None:
    book.carried_out(Plan(outline=READY))
    book.reported(status(True), status(False), Plan(notes=[Note("Normal", "Fine", "x")], outline=READY))
    assert book.reported(status(False), status(True), Plan(outline=READY)) == ["Ready is True now"]


def test_the_end_of_an_object_is_told_and_it_is_forgotten(book: Book) -> None:
    assert book.carried_out(Plan(notes=[INVALID])) == ["Invalid: no such tag"]
    book.journal.released(PARENT)
    assert book.told() == ["removed what was made for it"]
    assert book.carried_out(Plan(notes=[INVALID])) == ["Invalid: no such tag"]


def test_a_line_names_the_object_and_its_device_for_machines(book: Book) -> None:
    book.carried_out(Plan(outline=READY))
    book.journal.released(PARENT)
    book.journal.released({**PARENT, "metadata": {"name": "cluster-wide", "uid": "2"}})
    found = [vars(record)["fields"] for record in book.log.records]
    assert found == [
        {"kind": "Service", "namespace": "default", "name": "db", "tailnetName": "db.tail1234.ts.net"},
        {"kind": "Service", "name": "cluster-wide"},
    ]


OWNER = Owner("svc", Key("default", "db"))
SECRET_OBJECT: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "tailscale", "name": "s"}}


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(), "nothing"),
        (Plan(hold=FINALIZER, release=FINALIZER), f"hold {FINALIZER}; release {FINALIZER}"),
        (Plan(steps=[Child(SECRET_OBJECT), Creation(SECRET_OBJECT)]), "Secret tailscale/s; Secret tailscale/s"),
        (Plan(steps=[Child(SECRET_OBJECT)], requeue_after=1.5), "Secret tailscale/s; again in 1.5 s"),
        (Plan(steps=[Patch(SECRET, CHILD, {"data": {"key": "hunter2"}})]), "patch Secret tailscale/ts-db (data.key)"),
        (Plan(steps=[Deletion(SECRET, SECRET_OBJECT)]), "delete Secret tailscale/s"),
        (Plan(steps=[DeleteDevice("", OWNER, "nABC")]), "DeleteDevice nABC"),
        (Plan(steps=[FreeName("", OWNER, "db", ()), FindNodePorts()]), "FreeName db; FindNodePorts"),
        (Plan(notes=[INVALID], status=status(False, "Bad")), "Event Invalid; Ready=False (Bad)"),
    ],
)
def test_a_plan_is_one_line_for_those_who_look_closely(plan: Plan, words: str, book: Book) -> None:
    book.journal.planned(PARENT, plan)
    assert book.told() == []
    book.log.set_level(logging.DEBUG, "tsoperator")
    book.journal.planned(PARENT, plan)
    assert book.told() == [f"plan: {words}"]


def test_a_finalizer_that_is_there_and_a_parent_that_left_nothing_are_not_worth_a_word(book: Book) -> None:
    book.log.set_level(logging.DEBUG, "tsoperator")
    book.journal.planned(parent(metadata={"finalizers": [FINALIZER]}), Plan(hold=FINALIZER))
    book.journal.planned({}, Plan())
    book.journal.planned({}, Plan(steps=[FindNodePorts()]))
    assert book.told() == ["plan: nothing", "something that vanished: plan: FindNodePorts"]


def test_an_error_counts_as_told_if_a_warning_says_it_or_the_api_server_is_away(book: Book) -> None:
    known, silent, failed = Denied(403, "", "no"), Denied(403, "", "no"), Denied(403, "", "no")
    book.journal.failed(known, Plan(notes=[INVALID]))
    book.journal.failed(silent, Plan(notes=[NEWS]))
    book.journal.carried_out(PARENT, Plan(notes=[INVALID], error=failed), ())
    errors = (known, failed, Unreachable("away"), silent, Denied(403, "", "no"))
    assert [book.journal.has_told(error) for error in errors] == [True, True, True, False, False]


def test_an_object_that_is_gone_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    listeners: list[tuple[Resource, Listener]] = []
    journal = Journal(lambda resource, listener: listeners.append((resource, listener)))
    objects = [{**PARENT, "metadata": {"name": name}} for name in ("gone", "there")]
    for parent in 2 * objects:
        journal.carried_out(parent, Plan(notes=[INVALID]), ())
    ((resource, changed),) = listeners
    assert resource == resource_of(PARENT)
    changed(objects[0], None)
    changed(objects[1], objects[1])
    caplog.clear()
    for parent in objects:
        journal.carried_out(parent, Plan(notes=[INVALID]), ())
    assert [message.partition(":")[0] for message in caplog.messages] == [f"{PARENT['kind']} gone"]


@pytest.mark.parametrize(
    ("desired", "live", "paths"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 2, "c": 2}}, ["a.b"]),
        ({"a": {"b": 1}}, {}, ["a.b"]),
        ({"a": {"b": 1}}, {"a": "x"}, ["a"]),
        ({"a": [{"name": "x", "v": 1}]}, {"a": [{"name": "x", "v": 2}]}, ["a[x].v"]),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a[1]"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a[1]"]),
        ({"a": [{"name": "x"}]}, {"a": [{"name": "x"}, {"name": "y"}]}, ["a"]),
        ({"a": [{"name": "y", "v": 1}, {"name": "x"}]}, {"a": [{"name": "x"}]}, ["a[y]"]),
        ({"env": [{"name": "x"}, {"name": "y"}], "b": 1}, {"env": [{"name": "y"}, {"name": "x"}]}, ["b"]),
        ({"limits": {"cpu": "0.5"}, "b": 1}, {"limits": {"cpu": "500m"}}, ["b"]),
        ({"a": []}, {}, []),
        ({"a": [1]}, {}, ["a"]),
    ],
)
def test_the_fields_that_change_are_told_by_their_paths(desired: object, live: object, paths: Sequence[str]) -> None:
    assert [*changed_fields(desired, live)] == paths


DIGEST = {"metadata": {"annotations": {ANNOTATION_DIGEST: "d"}}}


@pytest.mark.parametrize(
    ("before", "after", "is_so"),
    [
        ({"metadata": {}, "spec": 1}, {**DIGEST, "spec": 1}, True),
        ({"metadata": {}, "spec": 2}, {**DIGEST, "spec": 1}, False),
        ({"metadata": {"annotations": {ANNOTATION_DIGEST: "c"}}, "spec": 1}, {**DIGEST, "spec": 1}, False),
    ],
)
def test_an_object_of_the_go_operator_that_is_right_is_taken_over(before: Object, after: Object, is_so: bool) -> None:
    assert is_taken_over(after, before) is is_so
