"""Reads the validity of a certificate (RFC 5280 4.1.2.5), the only part of a certificate that we need."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE: Final = 0x30
_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}  # UTCTime, GeneralizedTime


@dataclass(frozen=True, slots=True)
class Validity:
    """The time from which a certificate is valid, and the time at which it expires."""

    starts: datetime
    ends: datetime


def validity(pem: str) -> Validity | None:
    """Return the validity of the first certificate in *pem*, which is the server's own; None if it can't be read."""
    match = _PEM.search(pem)
    if match is None:
        return None
    try:
        certificate = base64.b64decode(match[1])
        (_, signed) = next(_elements(certificate))
        (_, fields) = next(_elements(signed))
        # The version, serial number, algorithm and issuer come before the validity; two of these are sequences.
        times = [content for tag, content in _elements(fields) if tag == _SEQUENCE][2]
        starts, ends = (datetime.strptime(text.decode(), _FORMATS[tag]) for tag, text in _elements(times))
    except (binascii.Error, ValueError, IndexError, KeyError, StopIteration):
        return None
    return Validity(starts.replace(tzinfo=UTC), ends.replace(tzinfo=UTC))


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element of the DER text *der* (X.690 8.1).

    Raises ValueError, IndexError.
    """
    start = 0
    while start < len(der):
        tag, length, start = der[start], der[start + 1], start + 2
        if length & 0x80:
            octets = length & 0x7F
            length, start = int.from_bytes(der[start : start + octets]), start + octets
        if start + length > len(der):
            raise ValueError("an element is cut off")
        yield tag, der[start : start + length]
        start += length
