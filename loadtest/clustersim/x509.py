"""Certificates in the X.509 format.

Only their serial numbers and times of validity are meaningful, since the simulation reads nothing else.
"""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta

SEQUENCE, INTEGER, VERSION, UTC_TIME, GENERALIZED_TIME = 0x30, 0x02, 0xA0, 0x17, 0x18
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_UTC_TIMES = re.compile(rb"\x17\x0d(\d{12}Z)\x17\x0d(\d{12}Z)")


def element(tag: int, *content: bytes) -> bytes:
    """Return a DER element: the *tag*, the length, and all of *content* in its order."""
    body = b"".join(content)
    length = len(body)
    if length < 0x80:
        return bytes([tag, length]) + body
    octets = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(octets)]) + octets + body


def moment(when: datetime, tag: int = UTC_TIME) -> bytes:
    """Return *when* as a DER element: a UTCTime if *tag* is `UTC_TIME`, otherwise a GeneralizedTime."""
    form = "%y%m%d%H%M%SZ" if tag == UTC_TIME else "%Y%m%d%H%M%SZ"
    return element(tag, when.strftime(form).encode())


def certificate(starts: bytes, ends: bytes, serial: bytes = b"\x01") -> str:
    """Return the PEM of a certificate that is valid from *starts* to *ends*, followed by a second certificate."""
    version, number = element(VERSION, element(INTEGER, b"\x02")), element(INTEGER, serial)
    algorithm, issuer, times = element(SEQUENCE), element(SEQUENCE, b"\x05\x00"), element(SEQUENCE, starts, ends)
    signed = element(SEQUENCE, version, number, algorithm, issuer, times, element(SEQUENCE, b"\x05\x00" * 80))
    return "".join(pem(element(SEQUENCE, each, element(SEQUENCE))) for each in (signed, element(SEQUENCE)))


def pem(der: bytes) -> str:
    """Return *der* as PEM."""
    return f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(der).decode()}-----END CERTIFICATE-----\n"


def certificate_for(left: timedelta, life: timedelta = timedelta(days=90)) -> str:
    """Return the PEM of a certificate that expires after *left* from now, and that was valid for *life* in total."""
    ends = datetime.now(UTC) + left
    return certificate(moment(ends - life), moment(ends))


def end_of(text: str) -> datetime | None:
    """Return the time at which the first certificate in *text* expires, or None if it can't be read."""
    match = _PEM.search(text)
    try:
        times = _UTC_TIMES.search(base64.b64decode(match[1])) if match else None
    except binascii.Error:
        return None
    return datetime.strptime(times[2].decode(), "%y%m%d%H%M%SZ").replace(tzinfo=UTC) if times else None
