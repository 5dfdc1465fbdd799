"""The times from which and until which a certificate is valid, as they are read from its PEM text."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from clustersim.x509 import GENERALIZED_TIME, SEQUENCE, UTC_TIME, certificate, element, moment, pem
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.proxy.x509 import Validity, validity

STARTS, ENDS = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2026, 4, 2, 3, 4, 4, tzinfo=UTC)
GOOD = certificate(moment(STARTS), moment(ENDS))

REAL = """\
-----BEGIN CERTIFICATE-----
MIIBiTCCAS+gAwIBAgIULBiGC+eCv8XuMn+sxyYwGBClhDowCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPd2ViLmV4YW1wbGUub3JnMB4XDTI2MTEyMTIzNDgwMloXDTI2
MTIyMTIzNDgwMlowGjEYMBYGA1UEAwwPd2ViLmV4YW1wbGUub3JnMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAELaabdx+2duHSp8cXx2S0iJARIoXpAvn7LgCBq8Kp
sHBeRbw8jRetx+6fJEUeWsdg0vQaduzqcU6K4F9B9Y94zKNTMFEwHQYDVR0OBBYE
FNXBzSw0vM78v5EG3VqCj0g5mMpeMB8GA1UdIwQYMBaAFNXBzSw0vM78v5EG3VqC
j0g5mMpeMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAPsdQZKl
JEMcCQ9qZWOKVsF545AvIkPSYHPr+CqzlQvGAiBZimcSedb2TmsOR5YEWBTKMCR5
SL1+TNEq1AauTWohNw==
-----END CERTIFICATE-----
"""


def test_a_real_certificate_is_read() -> None:
    """Read a certificate that openssl made, which is valid for 30 days."""
    starts = datetime(2026, 11, 21, 23, 48, 2, tzinfo=UTC)
    assert validity(REAL) == Validity(starts, starts + timedelta(days=30))


@pytest.mark.parametrize("tag", [UTC_TIME, GENERALIZED_TIME])
def test_the_validity_of_a_certificate_is_read_whatever_precedes_the_certificate(tag: int) -> None:
    text = f"subject=web\n{certificate(moment(STARTS, tag), moment(ENDS, tag))}"
    assert validity(text) == Validity(STARTS, ENDS)


DER = base64.b64decode("".join(GOOD.splitlines()[1:5]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a certificate",
        pem(b""),
        pem(b"\x30"),
        pem(b"\x30\x84\x01"),
        pem(element(SEQUENCE, element(SEQUENCE))),
        pem(DER[:60]),
        "-----BEGIN CERTIFICATE-----\na\n-----END CERTIFICATE-----",
        certificate(moment(STARTS), element(UTC_TIME, b"tomorrow")),
        certificate(moment(STARTS), element(SEQUENCE)),
        certificate(moment(STARTS), b""),
        certificate(moment(STARTS), moment(ENDS) * 2),
    ],
)
def test_text_that_is_no_certificate_has_no_validity(text: str) -> None:
    assert validity(text) is None


@given(st.binary(max_size=80))
def test_any_bytes_can_be_read_as_a_certificate_without_an_exception(der: bytes) -> None:
    assert validity(pem(der)) is None
