"""The labels and annotations that a ProxyClass gives a child.

Others can put labels and annotations on the child, too. So an annotation on the child lists the given ones, which the
operator removes when the class no longer sets them.
"""

from collections.abc import Mapping

from tsoperator.api.names import ANNOTATION_DIGEST, ANNOTATION_GIVEN
from tsoperator.api.objects import Object, annotations

_FIELDS = ("labels", "annotations")
_NOTES = (ANNOTATION_DIGEST, ANNOTATION_GIVEN)


def with_given(child: Object, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    """Return *child* with the *labels* and *annotations* that its ProxyClass gives it.

    Leave out those whose keys the child has already, and the annotations in which the operator keeps facts.
    """
    metadata = child["metadata"]
    given = {
        field: {key: value for key, value in more.items() if key not in {*metadata.get(field, {}), *_NOTES}}
        for field, more in zip(_FIELDS, (labels, annotations), strict=True)
    }
    names = sorted(f"{field}.{key}" for field, more in given.items() for key in more)
    if not names:
        return child
    given["annotations"][ANNOTATION_GIVEN] = " ".join(names)
    return {**child, "metadata": {**metadata, **{name: {**metadata.get(name, {}), **given[name]} for name in _FIELDS}}}


def without_given(child: Object) -> Object:
    """Return *child* without its given labels and annotations, as it was before `with_given`."""
    if ANNOTATION_GIVEN not in annotations(child):
        return child
    gone = given_names(child)
    kept = {
        field: {key: value for key, value in child["metadata"].get(field, {}).items() if (field, key) not in gone}
        for field in _FIELDS
    }
    metadata = {name: value for name, value in child["metadata"].items() if name not in _FIELDS}
    return {**child, "metadata": {**metadata, **{field: value for field, value in kept.items() if value}}}


def given_names(child: Object) -> set[tuple[str, str]]:
    """Return the given labels and annotations of *child*, and the annotation that lists them.

    Each of them is a pair: the field of the metadata, and the key.
    """
    noted = annotations(child).get(ANNOTATION_GIVEN)
    if noted is None:
        return set()
    pairs = (name.partition(".") for name in noted.split())
    return {("annotations", ANNOTATION_GIVEN), *((field, key) for field, _, key in pairs)}
