"""The log lines about objects: one line for each change that users care about, and none in a steady state.

The Applier, which carries out the plans of all reconcilers, passes each plan and its results to the journal. No line
has a value out of a Secret: a line about a change has only the names of the changed fields.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from tsoperator.api.conditions import TRUE
from tsoperator.api.names import ANNOTATION_DIGEST
from tsoperator.api.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    ENDPOINTSLICE,
    POD,
    SECRET,
    STATEFULSET,
    Key,
    Object,
    Resource,
    annotations,
    has_finalizer,
    is_deleting,
    key_of,
    resource_of,
)
from tsoperator.kube.errors import Unreachable
from tsoperator.runtime.cache import Cache
from tsoperator.runtime.diff import contains
from tsoperator.runtime.memory import Memory
from tsoperator.runtime.plan import (
    Child,
    Creation,
    Deletion,
    LastingWarning,
    Note,
    Outline,
    Patch,
    Plan,
    Step,
    reports_of,
)

log = logging.getLogger("tsoperator")

_WORKLOADS: Final = frozenset({STATEFULSET, DEPLOYMENT})
_ROUTINE: Final = frozenset({CONFIGMAP, ENDPOINTSLICE, POD})
"""The kinds whose objects change whenever a Pod comes or goes.

A write of such an object has a log line only if its `Write.about` describes it.
"""

_First = Literal["made", "seen"] | None
"""The occasion of a log line.

"made" means that the object's proxy was made now, "seen" that the object is seen for the first time, and None anything
else.
"""

_DIGEST: Final = f"metadata.annotations.{ANNOTATION_DIGEST}"
_TOLD: Final = "_told"  # the attribute that marks an error which a line about an object has reported
_MOST_FIELDS: Final = 4


class Write(NamedTuple):
    """A write of an object: *before* is its old state, *after* the state that was sent, *about* describes the change.

    The operator "took over" an object if the Go operator had made it, and it was right as it was.
    """

    verb: Literal["made", "changed", "took over"]
    resource: Resource
    key: Key
    before: Object | None = None
    after: Object | None = None
    about: str = ""

    def __str__(self) -> str:
        if self.about:
            return f"{self.about} ({self.resource.kind} {self.key})"
        return f"{self.resource.kind} {self.key}{_in_brackets(self.fields if self.verb == 'changed' else ())}"

    @property
    def is_routine(self) -> bool:
        """True if the write needs no log line: every new Pod or every login causes one, or it changes only metadata."""
        if self.resource in _ROUTINE:
            return not self.about
        return self.verb == "changed" and not self.about and (self.resource == SECRET or not self.fields)

    @property
    def fields(self) -> list[str]:
        """The paths of the fields that the write has changed, except in metadata.

        Fields that were removed are not among them.
        """
        changed = changed_fields(self.after or {}, self.before or {})
        return [path for path in changed if not path.startswith("metadata.")]


@dataclass(slots=True)
class _Known:
    """The facts that the journal remembers about an object.

    *outline* is its proxy as last seen, *notes* are the notes of the latest plan of each reconciler, and *lost* are
    the types of conditions that have become false. *unsaid* are the logged notes of a report that the API server
    refuses. *warned* are the warnings among *notes*. The time of a warning is that of the first one with its reason.
    """

    outline: Outline | None = None
    notes: dict[str, frozenset[Note]] = field(default_factory=dict)
    unsaid: frozenset[Note] = frozenset()
    lost: frozenset[str] = frozenset()
    warned: Sequence[LastingWarning] = ()


class Journal:
    """Logs the changes of each object that users care about, and remembers the warnings."""

    def __init__(self, cache: Cache, now: Callable[[], datetime]) -> None:
        """*now* returns the time of the wall clock."""
        self._known = Memory[_Known](cache)
        self._now = now

    def has_told(self, error: Exception) -> bool:
        """Tell whether *error* is in the log already: in a line about an object, or in a line about the API server."""
        return isinstance(error, Unreachable) or _TOLD in vars(error)

    def warnings(self, obj: Object) -> Sequence[LastingWarning]:
        """Return the warnings about *obj* that still hold, sorted by reason."""
        known = self._known.get(obj)
        return known.warned if known else ()

    def planned(self, parent: Object, plan: Plan) -> None:
        """Log *plan* at DEBUG, in one line.

        *parent* is the first object on which *plan* reports, or an empty object.
        """
        if log.isEnabledFor(logging.DEBUG) and (parent or plan.steps):
            log.debug("%s: plan: %s", _name(parent), _plan_in_words(parent, plan), extra=_fields(parent))

    def carried_out(self, parent: Object, plan: Plan, writes: Sequence[Write]) -> None:
        """Log the changes that *plan* has made with its *writes*, and the refusals that have begun or ended.

        If a plan isn't `whole`, it doesn't name all faults, so a refusal that it doesn't name counts as one that lasts.
        """
        known = self._known.get(parent)
        is_new = known is None
        if known is None:
            if not (writes or plan.notes or plan.told or plan.outline):
                return
            known = self._begin(parent)
        is_made = any(write.verb == "made" and write.resource in _WORKLOADS for write in writes)
        changes = [*_writes_in_words(parent, plan, writes)] if writes else []
        if plan.outline != known.outline and plan.outline is not None:
            changes += _changes_in_words(known.outline, plan.outline, is_made=is_made)
            known.outline = plan.outline
        if changes:
            self._tell(parent, logging.INFO, "; ".join(changes))
        if plan.notes or plan.told or known.notes.get(plan.by):
            first: _First = "made" if is_made else "seen" if is_new else None
            self._tell_notes(parent, known, plan, first=first, whole=plan.whole and plan.error is None)
        if plan.error is not None:
            self.failed(plan.error, plan)

    def unreported(self, parent: Object, plan: Plan) -> None:
        """Log the notes of *plan*, which says that the API server refused a report on *parent*.

        A report is a status, or the removal of the finalizer. If the previous report was refused, too, leave out the
        notes of that refusal, because they are in the log already.
        """
        known = self._known.get(parent) or self._begin(parent)
        for note in plan.notes:
            if note not in known.unsaid:
                self._tell(parent, logging.WARNING, f"{note.reason}: {note.message}")
        known.unsaid = frozenset(plan.notes)

    def failed(self, error: Exception, reported: Plan) -> None:
        """Mark *error*, which the caller will raise, as already logged if the plan *reported* has a warning."""
        notes = [*reported.notes, *(note for each in reported.reports for note in each.notes)]
        if any(note.type == "Warning" for note in notes):
            vars(error)[_TOLD] = True

    def reported(self, parent: Object, status: Object, plan: Plan) -> None:
        """Log which conditions have become true or false in the *status* that replaces that of *parent*."""
        if resource_of(parent) in _ROUTINE:
            return
        before = {each["type"]: each["status"] for each in _conditions(parent.get("status"))}
        known, ready = self._known.get(parent), []
        lost = known.lost if known else frozenset()
        for each in _conditions(status):
            kind, is_true, was = each["type"], each["status"] == TRUE, before.get(each["type"])
            if is_true and was != TRUE and (kind in lost or plan.outline is None):
                ready.append(kind)
                lost -= {kind}
            noted = _noted_types(plan, each)
            if not is_true and was == TRUE and "Warning" not in noted:
                lost |= {kind}
                if not noted:
                    self._tell(parent, logging.INFO, f"{kind} is {each['status']}: {each['reason']}: {each['message']}")
        if known:
            known.lost = lost
            known.unsaid = frozenset()
        if ready:
            self._tell(parent, logging.INFO, f"{', '.join(ready)} {'is' if len(ready) == 1 else 'are'} True now")

    def released(self, parent: Object) -> None:
        """Log that everything which was made for *parent* is removed."""
        self._tell(parent, logging.INFO, "removed what was made for it")
        self._known.note(parent, None)

    def _begin(self, parent: Object) -> _Known:
        """Return an empty record of facts about *parent*, which is seen for the first time."""
        self._known.note(parent, known := _Known())
        return known

    def _tell_notes(self, parent: Object, known: _Known, plan: Plan, *, first: _First, whole: bool) -> None:
        """Log the notes of *plan* that are new, and which warnings have ended."""
        before, now = known.notes.get(plan.by, frozenset()), frozenset((*plan.notes, *plan.told))
        if now == before:
            return
        conditions = _conditions(parent.get("status") if plan.status is None else plan.status)
        for note in dict.fromkeys(plan.notes):
            if note not in before and (note.type == "Warning" or _is_news(note, plan, conditions, first)):
                level = logging.WARNING if note.type == "Warning" else logging.INFO
                self._tell(parent, level, f"{note.reason}: {note.message}")
        still = {each.reason for each in now}
        kept = {note for note in before if note.reason not in still and (not whole or _lasts(note, conditions))}
        ended = {each.reason for each in before - kept if each.type == "Warning" and each.reason not in still}
        if ended and not is_deleting(parent):
            self._tell(parent, logging.INFO, f"no longer {' and '.join(sorted(ended))}")
        known.notes[plan.by] = now | kept
        since = {each.reason: each.since for each in known.warned}
        known.warned = sorted(
            LastingWarning(each.reason, each.message, since.get(each.reason) or self._now())
            for each in {note for notes in known.notes.values() for note in notes}
            if each.type == "Warning"
        )

    def _tell(self, parent: Object, level: int, words: str) -> None:
        if log.isEnabledFor(level):
            known = self._known.get(parent)
            devices = known.outline.devices if known and known.outline else ()
            log.log(level, "%s: %s", _name(parent), " ".join(words.split()), extra=_fields(parent, devices))


def _writes_in_words(parent: Object, plan: Plan, writes: Sequence[Write]) -> Iterator[str]:
    """Yield words for the *writes*, except for routine writes."""
    workloads = [each for each in writes if each.verb == "made" and each.resource in _WORKLOADS]
    if workloads:  # the other new objects belong to these, so the line doesn't name them
        hostname = f" (hostname {plan.outline.hostname})" if plan.outline else ""
        yield f"made {', '.join(map(str, workloads))}{hostname}"
    elif resource_of(parent) not in _ROUTINE:
        told = [each for each in writes if not each.is_routine]
        for verb in ("made", "changed", "took over"):
            if those := [str(each) for each in told if each.verb == verb]:
                yield f"{verb} {', '.join(those)}"


def _changes_in_words(before: Outline | None, now: Outline, *, is_made: bool) -> Iterator[str]:
    """Yield words for the differences between two outlines of a proxy, *before* and *now*.

    If *before* is None, the proxy is seen for the first time. Then yield words only if the proxy was made now.
    """
    if before is None:
        if not is_made:
            return
        before = replace(now, devices=())
    for name in ("hostname", "routes"):
        if (old := getattr(before, name)) != (new := getattr(now, name)):
            yield f"changed its {name} from {old or 'none'} to {new or 'none'}"
    gained = [device for device in now.devices if device not in before.devices]
    names = {name for name, _ in now.devices}  # a device that gets other addresses isn't lost
    lost = [name for name, _ in before.devices if name not in names]
    if gained:
        yield f"ready as {_devices(gained)}"
    if lost:
        yield f"no longer {'' if gained else 'ready '}as {' and '.join(lost)}"


def changed_fields(desired: Any, live: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields of *desired* that *live* doesn't contain.

    A path names an item of a list by the name of the item. The paths begin with *path*.
    """
    if isinstance(desired, dict) and isinstance(live or {}, dict):
        for name, value in desired.items():
            there = (live or {}).get(name)
            if not contains({name: there}, {name: value}):
                yield from changed_fields(value, there, f"{path}.{name}" if path else name)
    elif isinstance(desired, list) and isinstance(live, list):
        items, others = _by_name(desired), _by_name(live)
        different = [name for name, item in items.items() if not contains(others.get(name), item)]
        for name in different:
            where = f"{path}[{name}]"
            yield from changed_fields(items[name], others[name], where) if name in others else (where,)
        if not different:  # an item was removed
            yield path
    else:
        yield path


def _by_name(items: Sequence[Any]) -> dict[Any, Any]:
    """Return the *items* of a list by their names, or by their numbers if they have none."""
    return {item.get("name", number) if isinstance(item, dict) else number: item for number, item in enumerate(items)}


def is_taken_over(after: Object, before: Object) -> bool:
    """Tell whether the Go operator made *before*, and *after* only adds our digest because *before* was right."""
    fresh = ANNOTATION_DIGEST not in annotations(before)
    return fresh and all(path == _DIGEST for path in changed_fields(after, before))


def _in_brackets(fields: Iterable[str]) -> str:
    told = [*fields]
    more = f" and {len(told) - _MOST_FIELDS} more" if len(told) > _MOST_FIELDS else ""
    return f" ({', '.join(told[:_MOST_FIELDS])}{more})" if told else ""


def _plan_in_words(parent: Object, plan: Plan) -> str:
    """Return *plan* for *parent* in one line, with the names of objects only."""
    parts = [f"hold {plan.hold}"] if plan.hold and parent and not has_finalizer(parent, plan.hold) else []
    parts += [_step(step) for step in plan.steps]
    parts += [f"Event {note.reason}" for note in plan.notes]
    parts += [f"{each['type']}={each['status']} ({each['reason']})" for each in _conditions(plan.status)]
    parts += [f"{_name(obj)}: {_plan_in_words(obj, report)}" for obj, report in reports_of({}, plan)]
    if plan.release:
        parts.append(f"release {plan.release}")
    if plan.requeue_after is not None:
        parts.append(f"again in {plan.requeue_after:g} s")
    return "; ".join(parts) or "nothing"


def _step(step: Step) -> str:
    match step:
        case Child(obj) | Creation(obj):
            return f"{obj['kind']} {key_of(obj)}"
        case Patch(resource, key, body):
            return f"patch {resource.kind} {key}{_in_brackets(changed_fields(body, {}))}"
        case Deletion(resource, obj):
            return f"delete {resource.kind} {key_of(obj)}"
        case _:
            about = (getattr(step, name, "") for name in ("device", "hostname"))
            return " ".join(filter(None, (type(step).__name__, *about)))


def _name(parent: Object) -> str:
    return f"{parent['kind']} {key_of(parent)}" if parent else "something that vanished"


def _fields(parent: Object, devices: Iterable[tuple[str, str]] = ()) -> dict[str, dict[str, str]]:
    """Return the fields of a log record by which programs find the lines about *parent*.

    The fields also have the names of *devices*.
    """
    if not parent:
        return {}
    key, names = key_of(parent), ",".join(name for name, _ in devices)
    found = {"kind": parent["kind"], "namespace": key.namespace, "name": key.name, "tailnetName": names}
    return {"fields": {name: value for name, value in found.items() if value}}


def _conditions(status: Object | None) -> Sequence[Object]:
    """Return the conditions in *status*.

    If a condition lacks its reason or message, as a condition of a Pod can, this field is empty in the result.
    """
    return [{"reason": "", "message": "", **each} for each in (status or {}).get("conditions") or ()]


def _noted_types(plan: Plan, told: Object) -> set[str]:
    """Return the types, Normal or Warning, of the notes that say the same as the condition *told*.

    The message of the condition can contain several notes.
    """
    return {note.type for note in plan.notes if note.reason == told["reason"] or note.message in told["message"]}


def _lasts(note: Note, conditions: Iterable[Object]) -> bool:
    """Tell whether one of *conditions* still says the same as *note*, which was logged earlier."""
    return any(note.reason == each["reason"] or note.message in each["message"] for each in conditions)


def _is_news(note: Note, plan: Plan, conditions: Sequence[Object], first: _First) -> bool:
    """Tell whether *note*, which is no warning, needs a log line in addition to the lines about the changes of *plan*.

    A note that the object's proxy works needs none, because another line says when the proxy's device is ready. If the
    proxy was just made, a note that says why the object isn't ready needs none. If the object is seen for the *first*
    time, only such a note needs a line, because other notes can be old.
    """
    waits = any(each["status"] != TRUE and note.message in each["message"] for each in conditions)
    works = any(each["status"] == TRUE and note.reason == each["reason"] for each in conditions)
    if works and plan.outline is not None:
        return False
    return not waits if first == "made" else waits or first is None


def _devices(devices: Iterable[tuple[str, str]]) -> str:
    return " and ".join(f"{name} ({addresses})" for name, addresses in devices)
