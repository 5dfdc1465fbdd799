"""Rules of Kubernetes for labels and annotations, and values that are cut to fit them.

A rule returns lines for the message of a condition. Each line says what is wrong and how to fix it. A rule returns no
lines if nothing is wrong.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Final

VALUE_MAX: Final = 63
ANNOTATIONS_MAX: Final = 256 * 1024
"""The greatest number of bytes in the annotations of an object, keys and values together."""

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PREFIX_MAX: Final = 253
_KEPT: Final = 54  # characters that we keep of a value that is too long; a hyphen and 8 digits of a digest follow


def label_value(text: str) -> str:
    """Return *text* as a label's value. A text that is too long is cut and gets a digest, which keeps it unique."""
    if len(text) <= VALUE_MAX:
        return text
    return f"{text[:_KEPT]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def label_errors(labels: Mapping[str, str]) -> list[str]:
    """Say what is wrong with *labels*. Each line is about one key or value, and quotes it."""
    keys = [error for key in labels if (error := _key_error(key))]
    return keys + [error for value in labels.values() if (error := _value_error(value))]


def annotation_errors(annotations: Mapping[str, str]) -> list[str]:
    """Say what is wrong with *annotations*.

    Unlike the key of a label, the key of an annotation can have upper case letters in its prefix.
    """
    found = [error for key in annotations if (error := _key_error(key, key.lower()))]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_MAX:
        found.append(f"{size} bytes of annotations: an object may have at most {ANNOTATIONS_MAX}")
    return found


def _key_error(key: str, checked: str | None = None) -> str | None:
    prefix, slash, name = (key if checked is None else checked).rpartition("/")
    if slash and (len(prefix) > _PREFIX_MAX or not _SUBDOMAIN.fullmatch(prefix)):
        return f"{json.dumps(key)}: the part before the slash must be a DNS name in lower case, such as example.org"
    if len(name) <= VALUE_MAX and _NAME.fullmatch(name):
        return None
    return (
        f"{json.dumps(key)}: a key is at most {VALUE_MAX} letters, digits, '-', '_' and '.', "
        "with a letter or digit at both ends, and may have a DNS name and a slash before it"
    )


def _value_error(value: str) -> str | None:
    if not value or (len(value) <= VALUE_MAX and _NAME.fullmatch(value)):
        return None
    return (
        f"{json.dumps(value)}: a label's value is empty, or at most {VALUE_MAX} letters, digits, '-', '_' and '.', "
        "with a letter or digit at both ends"
    )
