"""Names that outlive a process."""

import re

from tsoperator.api import names

KUBERNETES_KEY = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def constants(prefix: str) -> dict[str, str]:
    return {name: value for name, value in vars(names).items() if name.startswith(prefix)}


def test_keys_of_labels_and_annotations_are_valid_and_distinct() -> None:
    keys = [*constants("LABEL_").values(), *constants("ANNOTATION_").values()]
    assert len(keys) > 20
    assert len(keys) == len(set(keys))
    assert all(KUBERNETES_KEY.fullmatch(key) for key in keys)


def test_keys_of_a_secret_are_distinct() -> None:
    types = constants("SECRET_TYPE_")
    keys = [value for name, value in constants("SECRET_").items() if name not in types]
    assert len(keys) == len(set(keys)) == 8
