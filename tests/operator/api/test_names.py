"""Keys of labels, annotations and Secrets that the operator reads and writes."""

import re

from tsoperator.api import names

KUBERNETES_KEY = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def constants(prefix: str) -> dict[str, str]:
    return {name: value for name, value in vars(names).items() if name.startswith(prefix)}


def test_the_keys_of_labels_annotations_and_secrets_are_distinct_and_valid() -> None:
    keys = [*constants("LABEL_").values(), *constants("ANNOTATION_").values()]
    assert len(keys) == len(set(keys)) > 20
    assert all(KUBERNETES_KEY.fullmatch(key) for key in keys)
    types = constants("SECRET_TYPE_")
    in_secrets = [value for name, value in constants("SECRET_").items() if name not in types]
    assert len(in_secrets) == len(set(in_secrets)) == 8
