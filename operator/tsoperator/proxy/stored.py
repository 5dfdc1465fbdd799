"""Reads and writes values in the data of a Secret, and reads the JSON in them.

A value that can't be read counts as empty.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from tsoperator.api.objects import Object


def text(data: Mapping[str, str], name: str) -> str:
    """Return the decoded value under the key *name* in *data*; empty if there is none, or if it can't be read."""
    value = data.get(name)
    if not value:
        return ""
    try:
        return binascii.a2b_base64(value).decode()
    except ValueError:
        return ""


def text_in(config: Object, name: str) -> str:
    """Return the text under *name* in *config*; empty if there is none."""
    value = config.get(name)
    return value if isinstance(value, str) else ""


def texts_in(config: Object, name: str) -> tuple[str, ...]:
    """Return the list of texts under *name* in *config*; empty if there is none."""
    value = config.get(name)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def list_of_texts(text: str) -> tuple[str, ...]:
    """Return the list in a JSON *text*, without those values that aren't texts; empty if there is no list."""
    value = _json(text)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def json_or_empty(text: str) -> Object:
    """Return the object in a JSON *text*; empty if there is none."""
    value = _json(text)
    return value if isinstance(value, dict) else {}


def _json(text: str) -> Any:
    """Return the JSON value in *text*; None if *text* isn't JSON."""
    try:
        return from_json(text)
    except ValueError:
        return None


def encoded(files: Mapping[str, str]) -> dict[str, str]:
    """Return the texts in *files* encoded as the data of a Secret."""
    return {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
