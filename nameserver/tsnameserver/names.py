"""DNS names: from text to the lower-cased wire form that zones are keyed by."""

from tsnameserver.errors import InvalidNameError

MAX_LABEL = 63
MAX_NAME = 255
"""Longest name on the wire, with its length bytes and the root (RFC 1035, 2.3.4)."""


def fold(text: str) -> str:
    """Return *text* in the spelling under which equal names are equal: lower case, no outer dot."""
    if not text.isascii():
        return text  # no DNS name; lowering could make it look like one
    return text.lower().removeprefix(".").removesuffix(".")


def wire_name(text: str) -> bytes:
    """Return the wire form of the name *text*, lower-cased; raises InvalidNameError."""
    try:
        labels = fold(text).encode("ascii").split(b".")
    except UnicodeEncodeError as error:
        raise InvalidNameError("it has characters outside ASCII") from error
    if b"" in labels:
        raise InvalidNameError("it has an empty label")
    if max(map(len, labels)) > MAX_LABEL:
        raise InvalidNameError(f"it has a label of more than {MAX_LABEL} bytes")
    wire = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    if len(wire) > MAX_NAME:
        raise InvalidNameError(f"it is longer than {MAX_NAME} bytes")
    return wire
