"""Finds annotations and labels of users that look right but have no effect, and says what to write instead."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Final

from tsoperator.api.names import (
    ANNOTATION_DIGEST,
    ANNOTATION_HOSTNAME,
    ANNOTATION_TAGS,
    GROUP,
    PROXY_CLASS,
    PROXY_GROUP,
)
from tsoperator.api.objects import Object, annotations, is_deleting, labels
from tsoperator.runtime.ownership import is_marked
from tsoperator.runtime.plan import Note, Plan

_PREFIX: Final = f"{GROUP}/"
_SHOWN: Final = 40  # characters of a value that are quoted

TAILNET_OF_A_GROUP: Final = {
    f"{GROUP}/tailnet": f"name a ProxyGroup in {PROXY_GROUP} whose spec.tailnet is that Tailnet"
}
"""The advice for users who try to choose a tailnet by an annotation that has no effect."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The annotations under ``tailscale.com/`` that the operator reads on one *kind* of object.

    *known* are all of these annotations. Those in *switches* turn something on if they are "true", and do nothing if
    they are "false". Those in *opt_outs* turn something off if they are "false". *elsewhere* has the annotations that
    the operator reads only on other kinds, each with a sentence that says what to do on this kind instead. The user can
    also write those in *as_labels* as labels. The operator never advises users to write those in *deprecated*.
    """

    kind: str
    known: Collection[str]
    switches: Collection[str] = ()
    opt_outs: Collection[str] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    as_labels: Collection[str] = (PROXY_CLASS,)
    deprecated: Collection[str] = ()

    def advice(self, key: str, otherwise: str = "write that") -> str:
        """Return advice for a user who wrote *key*, but probably meant the annotation with the most similar name.

        The advice is empty if no annotation has a similar name. If the operator reads the meant annotation on this
        kind, the advice is to do what *otherwise* says. If not, the advice is the sentence from *elsewhere*.
        """
        near = nearest(key, [each for each in (*self.known, *self.elsewhere) if each not in self.deprecated])
        return f"if you mean {near}, {self.elsewhere.get(near, otherwise)}" if near else ""


def no_annotations(
    kind: str, hostname: str, settings: str = "spec.proxyClass", known: Collection[str] = ()
) -> Vocabulary:
    """Return the vocabulary of a *kind* of objects that have fields in place of most annotations.

    The annotations in *known* are those that the operator reads on such an object. Its field *hostname* names the
    device, and its field *settings* has the settings of its Pods.
    """
    fields = {ANNOTATION_HOSTNAME: hostname, ANNOTATION_TAGS: "spec.tags", PROXY_CLASS: settings}
    elsewhere = {key: f"write {name} instead" for key, name in fields.items()}
    return Vocabulary(kind, known=known, elsewhere=elsewhere, as_labels=())


def with_ignored(made: Plan, obj: Object, vocabulary: Vocabulary) -> Plan:
    """Return *made* with the Events of `ignored`, unless the user's *obj* is being deleted."""
    notes = [] if is_deleting(obj) else ignored(obj, vocabulary)
    return replace(made, notes=[*made.notes, *notes]) if notes else made


def ignored(obj: Object, vocabulary: Vocabulary) -> list[Note]:
    """Return an Event, to be written once, for each annotation or label of *obj* that looks right but has no effect."""
    given = annotations(obj)
    notes = [
        Note("Warning", "IgnoredAnnotation", words, once=True)
        for key, value in sorted(given.items())
        if (words := _without_effect(key, value, vocabulary))
    ]
    return notes + [Note("Warning", "IgnoredLabel", words, once=True) for words in _labels(obj, vocabulary)]


def _without_effect(key: str, value: str, vocabulary: Vocabulary) -> str:
    """Return why the annotation *key* has no effect, and what to do.

    The result is empty if the annotation has an effect, or if it isn't one of the operator's.
    """
    if not key.lower().startswith(_PREFIX):
        return _elsewhere_known(key, vocabulary)
    if key in vocabulary.switches and value not in ("true", "false"):
        return f'annotation {key} is {_quoted(value)}, which turns nothing on: write "true", or remove it'
    if key in vocabulary.opt_outs and value not in ("true", "false"):
        return f'annotation {key} is {_quoted(value)}, which turns nothing off: write "false", or remove it'
    if key in vocabulary.known or key == ANNOTATION_DIGEST:  # our own one remains if somebody took off a child's labels
        return ""
    if key in vocabulary.elsewhere:
        return f"annotation {key} has no effect on this {vocabulary.kind}: {vocabulary.elsewhere[key]}"
    return _unknown("annotation", key, vocabulary.advice(key) or "check its spelling, or remove it")


def _elsewhere_known(key: str, vocabulary: Vocabulary) -> str:
    """Return why the annotation *key* has no effect if only its prefix is wrong; otherwise an empty text."""
    prefix, _, name = key.rpartition("/")
    ours = f"{_PREFIX}{name}"
    is_meant = "tailscale" in prefix.lower() and ours in (*vocabulary.known, *vocabulary.elsewhere)
    return _unknown("annotation", key, vocabulary.advice(ours)) if is_meant else ""


def _unknown(what: str, key: str, cure: str) -> str:
    return f"the operator doesn't know {what} {key}, which has no effect: {cure}"


def _labels(obj: Object, vocabulary: Vocabulary) -> Iterator[str]:
    if is_marked(obj):
        return  # an operator made the object, so its labels are not the user's
    for key in sorted(labels(obj).keys() - annotations(obj).keys() - {*vocabulary.as_labels}):
        if key in vocabulary.known:
            yield f"label {key} has no effect, because it must be an annotation: move it to metadata.annotations"
        elif key in vocabulary.elsewhere:
            yield f"label {key} has no effect on this {vocabulary.kind}: {vocabulary.elsewhere[key]}"
        elif key.lower().startswith(_PREFIX) and (cure := vocabulary.advice(key, "write that as an annotation")):
            yield _unknown("label", key, cure)


def nearest(key: str, known: Collection[str]) -> str:
    """Return the name in *known* that a user who wrote *key* probably meant; empty if no name is similar.

    A similar name has nearly the same text as *key*, or contains all words of *key*.
    """
    names = {each.removeprefix(_PREFIX): each for each in known}
    name = key.lower().removeprefix(_PREFIX)
    if similar := get_close_matches(name, names, n=1):
        return names[similar[0]]
    words = {*name.split("-")}
    return next((names[each] for each in sorted(names) if words <= {*each.split("-")}), "")


def _quoted(value: str) -> str:
    """Return the beginning of *value* in quotes and on one line."""
    return json.dumps(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…", ensure_ascii=False)
