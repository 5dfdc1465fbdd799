"""The Events about an Ingress's certificate."""

from datetime import UTC, datetime, timedelta

import pytest
from tsoperator.proxy.certificate import News, ObservedCertificate, missing, news
from tsoperator.proxy.secret import Certificate
from tsoperator.proxy.x509 import Validity

WEB = "web.tail1234.ts.net"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DAY = 86400.0
MISSING, ASKED = Certificate(is_there=False), Certificate(is_there=False, asked=True)
TIMELESS = Certificate(is_there=True)


def lives(days: float, *, of: float = 90) -> Certificate:
    """Return a certificate that expires in *days* days, and whose whole lifetime is *of* days."""
    ends = NOW + timedelta(days=days)
    return Certificate(True, Validity(ends - timedelta(days=of), ends))


def told(certificate: Certificate, missed_for: float | None = None) -> News:
    return news(ObservedCertificate(WEB, certificate, NOW, missed_for))


PENDING, FAILING = ("Normal", "CertificatePending"), ("Warning", "CertificateMissing")
READY, OLD = ("Normal", "CertificateReady"), ("Warning", "CertificateNotRenewed")


@pytest.mark.parametrize(
    ("certificate", "missed_for", "reasons", "requeue_after"),
    [
        (MISSING, None, [], 600),
        (MISSING, 0, [], 600),
        (MISSING, 599, [], 1),
        (MISSING, 600, [PENDING], None),
        (ASKED, 599, [], 1),
        (ASKED, 600, [FAILING], None),
        (lives(90), None, [], 76 * DAY),
        (lives(90), 0, [READY], 76 * DAY),
        (lives(14.5), None, [], DAY / 2),
        (lives(14), None, [OLD], None),
        (lives(14), 5, [OLD], None),
        (lives(-1), None, [OLD], None),
        (lives(5, of=6), 1, [READY], 3.5 * DAY),
        (lives(1, of=6), 1, [OLD], None),
        (TIMELESS, None, [], None),
        (TIMELESS, 1, [READY], None),
    ],
)
def test_an_event_says_that_a_certificate_is_missing_has_arrived_or_was_not_renewed(
    certificate: Certificate, missed_for: float | None, reasons: list[tuple[str, str]], requeue_after: float | None
) -> None:
    found = told(certificate, missed_for)
    assert [(note.type, note.reason) for note in found.notes] == reasons
    assert [note.once for note in found.notes] == [reason == PENDING for reason in reasons]
    assert found.requeue_after == requeue_after


def test_the_events_about_a_certificate_say_what_the_user_can_do() -> None:
    for certificate, words in (
        (MISSING, f"at the first HTTPS request, which takes some seconds; open https://{WEB}/"),
        (ASKED, "see what the log of its Pod says of ACME"),
        (lives(3), f"the certificate of {WEB} expires on 2026-01-05 and has not been renewed"),
        (lives(-3), f"the certificate of {WEB} expired on 2025-12-30 and has not been renewed"),
    ):
        (note,) = told(certificate, 600).notes
        assert words in note.message


@pytest.mark.parametrize(
    ("certificate", "reason"), [(MISSING, "CertificateMissing"), (lives(3), "CertificateNotRenewed")]
)
def test_a_warning_about_a_groups_certificate_names_a_pod_and_asks_for_no_https_request(
    certificate: Certificate, reason: str
) -> None:
    (note,) = news(ObservedCertificate(WEB, certificate, NOW, 600, "ing-0")).notes
    assert (note.type, note.reason, "HTTPS request" in note.message) == ("Warning", reason, False)
    assert "Pod ing-0" in note.message


@pytest.mark.parametrize("has_class", [True, False])
def test_an_event_about_a_certificate_names_the_proxyclass_only_if_the_proxy_can_have_one(has_class: bool) -> None:
    (note,) = news(ObservedCertificate(WEB, ASKED, NOW, 600, has_class=has_class)).notes
    assert ("ProxyClass" in note.message) is has_class


def test_the_words_of_a_warning_about_a_certificate_are_the_same_each_day() -> None:
    later = ObservedCertificate(WEB, lives(3), NOW + timedelta(days=1), None)
    assert news(later).notes == told(lives(3)).notes


OTHER = "other.tail1234.ts.net"


@pytest.mark.parametrize(
    "looks",
    [
        [(0, WEB, TIMELESS, None)],
        [(0, WEB, MISSING, 0), (5, WEB, MISSING, 5), (10, WEB, TIMELESS, 10)],
        [(0, WEB, MISSING, 0), (5, WEB, ASKED, 0), (10, WEB, ASKED, 5), (15, WEB, TIMELESS, 10)],
        [(0, WEB, ASKED, 0), (5, OTHER, ASKED, 0), (10, WEB, ASKED, 0)],
        [(0, WEB, MISSING, 0), (5, OTHER, TIMELESS, None)],
    ],
)
def test_the_operator_remembers_the_time_from_which_a_certificate_was_missing(
    looks: list[tuple[float, str, Certificate, float | None]],
) -> None:
    since = None
    for now, domain, certificate, missed_for in looks:
        since = missing(since, domain, certificate, now)
        assert (now - since.at if since else None) == missed_for
