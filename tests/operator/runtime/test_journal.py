"""The lines of the log about objects: the changes that they report, each of them once."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

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
)
from tsoperator.kube.errors import Denied, Unreachable
from tsoperator.runtime.clock import utc_now
from tsoperator.runtime.journal import Journal, Write, changed_fields, is_taken_over
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import (
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

from tests.support.shown import Shown

CHILD = Key("tailscale", "ts-db")
OUTLINE = Outline("default-db")
DEVICE = ("db.tail1234.ts.net", "100.64.0.7")
READY = Outline("default-db", "", (DEVICE,))


def made(resource: Resource) -> Write:
    return Write("made", resource, CHILD)


def changed(resource: Resource, before: Object, after: Object, about: str = "") -> Write:
    return Write("changed", resource, CHILD, before, after, about)


MADE = made(STATEFULSET)
MADE_WORDS = "made StatefulSet tailscale/ts-db"
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
    journal: Journal
    log: pytest.LogCaptureFixture

    def told(self) -> list[str]:
        """Return the lines that were logged so far, without the name of their object, and clear the log."""
        found = [message.removeprefix("Service default/db: ") for message in self.log.messages]
        self.log.clear()
        return found

    def carried_out(self, plan: Plan, *writes: Write, parent: Object = PARENT) -> list[str]:
        """Tell the journal that *plan* was carried out, and return the lines that it logs."""
        self.log.clear()
        self.journal.carried_out(parent, plan, writes)
        return self.told()

    def reported(self, before: Object | None, after: Object, plan: Plan) -> list[str]:
        """Tell the journal that *plan* replaces the status *before* by *after*, and return the lines that it logs."""
        self.log.clear()
        self.journal.reported(parent(status=before), after, plan)
        return self.told()


@pytest.fixture
def book(caplog: pytest.LogCaptureFixture) -> Book:
    caplog.set_level(logging.INFO, "tsoperator")
    return Book(Journal(Shown(PARENT, parent(kind="Pod")), utc_now), caplog)


@pytest.mark.parametrize(
    ("writes", "words"),
    [
        ([], ""),
        ([MADE], MADE_WORDS),
        ([made(SERVICE), MADE], MADE_WORDS),
        ([made(DEPLOYMENT)], "made Deployment tailscale/ts-db"),
        ([made(SERVICE)], "made Service tailscale/ts-db"),
        ([made(ENDPOINTSLICE), made(CONFIGMAP)], ""),
        ([changed(CONFIGMAP, {"data": {"a": "1"}}, {"data": {"a": "2"}})], ""),
        ([changed(CONFIGMAP, {}, {"data": {}}, "the stub domain")], f"changed the stub domain (ConfigMap {CHILD})"),
        ([made(SECRET)], "made Secret tailscale/ts-db"),
        ([changed(SECRET, {}, {"data": {"key": "secret"}})], ""),
        ([changed(SECRET, {}, {"data": {"key": "secret"}}, "its words")], f"changed its words (Secret {CHILD})"),
        (
            [changed(STATEFULSET, {"spec": {"replicas": 1}}, {"spec": {"replicas": 2}})],
            f"changed StatefulSet {CHILD} (spec.replicas)",
        ),
        ([changed(STATEFULSET, {}, {"metadata": {"labels": {"a": "b"}}})], ""),
        (
            [changed(STATEFULSET, {}, {"spec": dict.fromkeys("abcdef", 1)})],
            f"changed StatefulSet {CHILD} (spec.a, spec.b, spec.c, spec.d and 2 more)",
        ),
        (
            [changed(STATEFULSET, {}, {"spec": dict.fromkeys("abcd", 1)})],
            f"changed StatefulSet {CHILD} (spec.a, spec.b, spec.c, spec.d)",
        ),
        (
            [Write("took over", STATEFULSET, CHILD), Write("took over", SERVICE, CHILD)],
            f"took over StatefulSet {CHILD}, Service {CHILD}",
        ),
        (
            [changed(SERVICE, {}, {"spec": {"a": 1}}), made(SERVICE)],
            f"made Service {CHILD}; changed Service {CHILD} (spec.a)",
        ),
    ],
)
def test_a_log_line_names_the_objects_that_were_made_and_the_fields_that_changed(
    writes: list[Write], words: str, book: Book
) -> None:
    assert book.carried_out(Plan(), *writes) == [words] * bool(words)


OTHER = ("db-1.tail1234.ts.net", "100.64.0.8")
READY_WORDS = "ready as db.tail1234.ts.net (100.64.0.7)"


@pytest.mark.parametrize(
    ("writes", "outlines", "words"),
    [
        ([MADE], [OUTLINE], f"{MADE_WORDS} (hostname default-db)"),
        ([MADE], [READY], f"{MADE_WORDS} (hostname default-db); {READY_WORDS}"),
        ([MADE], [OUTLINE, READY], READY_WORDS),
        ([MADE], [OUTLINE, READY, READY], ""),
        ([], [OUTLINE, READY], READY_WORDS),
        ([], [READY], ""),
        ([], [READY, OUTLINE], "no longer ready as db.tail1234.ts.net"),
        (
            [],
            [READY, Outline("default-db", "", (OTHER,))],
            "ready as db-1.tail1234.ts.net (100.64.0.8); no longer as db.tail1234.ts.net",
        ),
        (
            [MADE],
            [OUTLINE, Outline("default-db", "", (DEVICE, OTHER))],
            f"{READY_WORDS} and db-1.tail1234.ts.net (100.64.0.8)",
        ),
        (
            [],
            [READY, Outline("default-db", "", ((DEVICE[0], "100.64.0.9"),))],
            "ready as db.tail1234.ts.net (100.64.0.9)",
        ),
        ([MADE], [OUTLINE, Outline("db")], "changed its hostname from default-db to db"),
        ([MADE], [OUTLINE, Outline("default-db", "10.0.0.0/8")], "changed its routes from none to 10.0.0.0/8"),
        ([MADE], [Outline("a", "10.0.0.0/8"), Outline("a")], "changed its routes from 10.0.0.0/8 to none"),
        ([], [READY, None], ""),
        ([], [READY, None, READY], ""),
    ],
)
def test_a_log_line_says_when_a_proxy_becomes_ready_or_changes_its_hostname_or_routes(
    writes: list[Write], outlines: list[Outline | None], words: str, book: Book
) -> None:
    told = [book.carried_out(Plan(outline=outlines[0]), *writes)]
    told += [book.carried_out(Plan(outline=outline)) for outline in outlines[1:]]
    assert told[-1] == [words] * bool(words)


@pytest.mark.parametrize(
    ("plans", "words"),
    [
        ([[INVALID]], ["Invalid: no such tag"]),
        ([[INVALID], [INVALID]], []),
        ([[INVALID], []], ["no longer Invalid"]),
        ([[INVALID], [], [INVALID]], ["Invalid: no such tag"]),
        ([[INVALID, LEFT_OUT], []], ["no longer Invalid and LeftOut"]),
        ([[INVALID, LEFT_OUT], [LEFT_OUT]], ["no longer Invalid"]),
        ([[INVALID], [Note("Warning", "Invalid", "no such\n class")]], ["Invalid: no such class"]),
        ([[INVALID, INVALID]], ["Invalid: no such tag"]),
        ([[NEWS]], []),
        ([[], [NEWS]], []),
        ([[INVALID], [INVALID, NEWS]], ["Renamed: has another name"]),
        ([[INVALID], [INVALID, NEWS], [INVALID]], []),
    ],
)
def test_a_refusal_is_logged_when_it_begins_and_when_it_ends(
    plans: list[list[Note]], words: list[str], book: Book
) -> None:
    assert [book.carried_out(Plan(notes=notes)) for notes in plans][-1] == words


@pytest.mark.parametrize(
    ("status", "outline", "when"),
    [
        ({}, OUTLINE, ["made", "known"]),
        (status(True, message="has another name"), OUTLINE, ["made", "known"]),
        (status(True, "Renamed"), OUTLINE, []),
        (status(True, "Renamed"), None, ["made", "known"]),
        (status(False, "Renamed"), OUTLINE, ["made", "known"]),
        (status(False, message="it waits, and has another name"), OUTLINE, ["seen", "known"]),
    ],
)
def test_an_event_that_is_no_warning_is_logged_unless_it_is_old_or_repeats_another_line(
    status: Object, outline: Outline | None, when: list[str], book: Book
) -> None:
    plan, line = Plan(notes=[NEWS], status=status, outline=outline), "Renamed: has another name"
    found = {"made": line in book.carried_out(plan, MADE)}
    book.journal.released(PARENT)
    found["seen"] = line in book.carried_out(plan)
    book.journal.released(PARENT)
    book.carried_out(Plan(notes=[INVALID]))
    found["known"] = line in book.carried_out(plan)
    assert [each for each, is_told in found.items() if is_told] == when


def test_only_a_warning_event_is_logged_as_a_warning(book: Book) -> None:
    for notes in ([INVALID], [INVALID, NEWS], []):
        book.journal.carried_out(PARENT, Plan(notes=notes), ())
    assert [record.levelname for record in book.log.records] == ["WARNING", "INFO", "INFO"]


@pytest.mark.parametrize(
    ("before", "then", "words"),
    [
        (None, Plan(status=status(False, "Invalid")), []),
        (status(False, "Invalid"), Plan(), []),
        (None, Plan(status=status(False, "Waits", message="it waits: no such tag")), []),
        (status(False, "Invalid"), Plan(status=status(True)), ["no longer Invalid"]),
        (None, Plan(whole=False), []),
        (None, Plan(notes=[LEFT_OUT], whole=False), ["LeftOut: path /a"]),
        (None, Plan(notes=[LEFT_OUT], error=OSError()), ["LeftOut: path /a"]),
        (None, Plan(notes=[LEFT_OUT]), ["LeftOut: path /a", "no longer Invalid"]),
    ],
)
def test_a_refusal_has_ended_only_if_no_condition_repeats_it_and_a_whole_plan_does_not_name_it(
    before: Object | None, then: Plan, words: list[str], book: Book
) -> None:
    book.carried_out(Plan(notes=[INVALID]))
    assert book.carried_out(then, parent=parent(status=before)) == words
    assert ("no longer Invalid" in "".join(book.carried_out(Plan()))) is ("no longer Invalid" not in words)


def test_the_log_about_a_pod_has_its_warnings_but_neither_writes_nor_conditions(book: Book) -> None:
    pod = parent(kind="Pod", status={"conditions": [{"type": "Ready", "status": "True"}]})
    book.journal.reported(parent(kind="Pod"), status(True), Plan())
    for notes in ([INVALID, NEWS], [NEWS], []):
        book.journal.carried_out(pod, Plan(notes=notes), [changed(SERVICE, {}, {"spec": {"a": 1}})])
    assert book.told() == ["Pod default/db: Invalid: no such tag", "Pod default/db: no longer Invalid"]


def test_the_end_of_a_refusal_is_not_logged_for_an_object_that_is_being_deleted(book: Book) -> None:
    book.carried_out(Plan(notes=[INVALID]))
    assert book.carried_out(Plan(), parent=parent(metadata={"deletionTimestamp": "t"})) == []


GONE, GONE_WORDS = status(False, "Gone"), "Ready is False: Gone: in words"
BOTH = {"conditions": [*status(True)["conditions"], *status(True, kind="Valid")["conditions"]]}


@pytest.mark.parametrize(
    ("before", "after", "plan", "words"),
    [
        (None, status(True), Plan(), "Ready is True now"),
        (status(False), status(True), Plan(), "Ready is True now"),
        (status(True), status(True), Plan(), ""),
        (None, status(False), Plan(), ""),
        (status(False), status(False, "Other"), Plan(), ""),
        (status(True), GONE, Plan(), GONE_WORDS),
        (status(True), status(False, "Invalid"), Plan(notes=[INVALID]), ""),
        (status(True), GONE, Plan(notes=[INVALID]), GONE_WORDS),
        (status(True), GONE, Plan(notes=[Note("Warning", "Other", "words")]), ""),
        (status(True), GONE, Plan(notes=[Note("Normal", "Gone", "in words")]), ""),
        (None, status(True), Plan(outline=OUTLINE), ""),
        (status(True), {}, Plan(), ""),
        (None, BOTH, Plan(), "Ready, Valid are True now"),
    ],
)
def test_a_log_line_names_the_conditions_whose_status_changes(
    before: Object | None, after: Object, plan: Plan, words: str, book: Book
) -> None:
    assert book.reported(before, after, plan) == [words] * bool(words)


@pytest.mark.parametrize(
    ("notes", "words"), [([], ["Ready is False: Fine: in words"]), ([Note("Normal", "Fine", "x")], [])]
)
def test_the_log_says_when_a_proxy_that_was_not_ready_is_ready_again(
    notes: list[Note], words: list[str], book: Book
) -> None:
    plan = Plan(outline=READY)
    book.carried_out(plan)
    told = [book.reported(status(True), status(False), Plan(notes=notes, outline=READY))]
    told += [book.reported(status(False), status(True), plan) for _ in range(2)]
    assert told == [words, ["Ready is True now"], []]


def test_a_condition_that_repeats_a_warning_has_no_log_line_of_its_own(book: Book) -> None:
    warned, well = Plan(notes=[INVALID], outline=READY), Plan(outline=READY)
    assert book.carried_out(warned) == ["Invalid: no such tag"]
    assert book.reported(status(True), status(False, "Invalid"), warned) == []
    assert book.carried_out(well) == ["no longer Invalid"]
    assert book.reported(status(False), status(True), well) == []


def test_the_release_of_an_object_is_logged_and_its_earlier_refusals_are_forgotten(book: Book) -> None:
    assert book.carried_out(Plan(notes=[INVALID])) == ["Invalid: no such tag"]
    book.journal.released(PARENT)
    assert book.told() == ["removed what was made for it"]
    for uid in "12":
        assert book.carried_out(Plan(notes=[INVALID]), parent=parent(uid)) == ["Invalid: no such tag"]


def test_a_log_line_has_the_kind_and_the_names_of_its_object_and_device_as_fields(book: Book) -> None:
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
def test_the_log_has_one_line_for_each_plan_at_debug_level(plan: Plan, words: str, book: Book) -> None:
    book.journal.planned(PARENT, plan)
    assert book.told() == []
    book.log.set_level(logging.DEBUG, "tsoperator")
    book.journal.planned(PARENT, plan)
    assert book.told() == [f"plan: {words}"]


def test_the_log_has_no_line_for_an_empty_plan_of_a_missing_parent_and_no_step_for_an_existing_finalizer(
    book: Book,
) -> None:
    book.log.set_level(logging.DEBUG, "tsoperator")
    book.journal.planned(parent(metadata={"finalizers": [FINALIZER]}), Plan(hold=FINALIZER))
    book.journal.planned({}, Plan())
    book.journal.planned({}, Plan(steps=[FindNodePorts()]))
    assert book.told() == ["plan: nothing", "something that vanished: plan: FindNodePorts"]


def test_an_error_counts_as_logged_if_a_plan_has_warned_of_it_or_the_api_server_is_unreachable(book: Book) -> None:
    known, silent, failed = Denied(403, "", "no"), Denied(403, "", "no"), Denied(403, "", "no")
    book.journal.failed(known, Plan(notes=[INVALID]))
    book.journal.failed(silent, Plan(notes=[NEWS]))
    book.journal.carried_out(PARENT, Plan(notes=[INVALID], error=failed), ())
    errors = (known, failed, Unreachable("away"), silent, Denied(403, "", "no"))
    assert [book.journal.has_told(error) for error in errors] == [True, True, True, False, False]


def test_a_warning_is_remembered_with_the_time_of_its_first_event_until_it_ends() -> None:
    times = (datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 9))
    journal = Journal(Shown(PARENT), partial(next, times))
    other = replace(INVALID, message="other words")

    def told(*notes: Note, whole: bool = True, told: Sequence[Note] = ()) -> list[tuple[str, int]]:
        journal.carried_out(PARENT, Plan(notes=notes, whole=whole, told=told), ())
        return [(each.message, each.since.day) for each in journal.warnings(PARENT)]

    assert told(NEWS) == []
    assert told(INVALID, NEWS) == told(NEWS, whole=False) == [(INVALID.message, 1)]
    assert told(other) == told(told=[other]) == [("other words", 1)]
    assert told() == []
    assert told(INVALID)[0][1] > 1


def test_the_journal_forgets_an_object_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    objects = [{**PARENT, "metadata": {**PARENT["metadata"], "name": name, "uid": name}} for name in ("gone", "there")]
    cache = Shown(*objects)
    journal = Journal(cache, utc_now)
    for parent in 2 * objects:
        journal.carried_out(parent, Plan(notes=[INVALID]), ())
    cache.drop(objects[0])
    cache.show(objects[0])
    cache.show(objects[1])
    caplog.clear()
    for parent in objects:
        journal.carried_out(parent, Plan(notes=[INVALID]), ())
    assert [message.partition(":")[0] for message in caplog.messages] == ["Service default/gone"]


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
def test_changed_fields_are_logged_by_their_paths(desired: object, live: object, paths: Sequence[str]) -> None:
    assert [*changed_fields(desired, live)] == paths


@pytest.mark.parametrize(
    ("digest", "spec", "is_so"),
    [({}, 1, True), ({}, 2, False), ({ANNOTATION_DIGEST: "c"}, 1, False)],
)
def test_an_object_is_taken_over_if_a_write_only_adds_the_digest_that_it_lacks(
    digest: dict[str, str], spec: int, is_so: bool
) -> None:
    after = {"metadata": {"annotations": {ANNOTATION_DIGEST: "d"}}, "spec": 1}
    assert is_taken_over(after, {"metadata": {"annotations": digest}, "spec": spec}) is is_so
