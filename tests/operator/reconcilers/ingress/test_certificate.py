"""What is told of an Ingress's certificate."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from tsoperator.api.objects import Key
from tsoperator.desired.secret import Certificate
from tsoperator.desired.x509 import Validity
from tsoperator.reconcilers.ingress.certificate import Missed, News, Seen, news

WEB = "web.tail1234.ts.net"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DAY = 86400.0
MISSING, ASKED = Certificate(is_there=False), Certificate(is_there=False, asked=True)
TIMELESS = Certificate(is_there=True)


def lives(days: float, *, of: float = 90) -> Certificate:
    """A certificate that has so many days left of all that it had."""
    ends = NOW + timedelta(days=days)
    return Certificate(True, Validity(ends - timedelta(days=of), ends))


def told(certificate: Certificate, missed_for: float | None = None) -> News:
    return news(Seen(WEB, certificate, NOW, missed_for))


class Case(NamedTuple):
    certificate: Certificate
    missed_for: float | None
    reasons: list[tuple[str, str]]
    requeue_after: float | None


PENDING, FAILING = ("Normal", "CertificatePending"), ("Warning", "CertificateMissing")
READY, OLD = ("Normal", "CertificateReady"), ("Warning", "CertificateNotRenewed")


@pytest.mark.parametrize(
    "case",
    [
        Case(MISSING, None, [], 600),
        Case(MISSING, 0, [], 600),
        Case(MISSING, 599, [], 1),
        Case(MISSING, 600, [PENDING], None),
        Case(ASKED, 599, [], 1),
        Case(ASKED, 600, [FAILING], None),
        Case(lives(90), None, [], 76 * DAY),
        Case(lives(90), 0, [READY], 76 * DAY),
        Case(lives(14.5), None, [], DAY / 2),
        Case(lives(14), None, [OLD], None),
        Case(lives(14), 5, [OLD], None),
        Case(lives(-1), None, [OLD], None),
        Case(lives(5, of=6), 1, [READY], 3.5 * DAY),
        Case(lives(1, of=6), 1, [OLD], None),
        Case(TIMELESS, None, [], None),
        Case(TIMELESS, 1, [READY], None),
    ],
)
def test_a_certificate_is_told_of_when_it_is_missing_there_or_old(case: Case) -> None:
    found = told(case.certificate, case.missed_for)
    assert [(note.type, note.reason) for note in found.notes] == case.reasons
    assert found.requeue_after == case.requeue_after


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        (MISSING, f"at the first HTTPS request, which takes some seconds; open https://{WEB}/"),
        (ASKED, "see what the log of its Pod says of ACME"),
        (lives(3), f"the certificate of {WEB} expires on 2026-01-05 and has not been renewed"),
        (lives(-3), f"the certificate of {WEB} expired on 2025-12-30 and has not been renewed"),
    ],
)
def test_the_words_say_what_to_do(certificate: Certificate, words: str) -> None:
    (note,) = told(certificate, 600).notes
    assert words in note.message


def test_a_lasting_warning_keeps_its_words() -> None:
    later = Seen(WEB, lives(3), NOW + timedelta(days=1), None)
    assert news(later).notes == told(lives(3)).notes


class Clock:
    """Time, in seconds, that passes only when told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


WEB_KEY, OTHER_KEY = Key("default", "web"), Key("default", "other")


class Look(NamedTuple):
    """What is there after so many seconds more, and for how long it was missed then."""

    after: float
    certificate: Certificate
    missed_for: float | None
    domain: str = WEB


@pytest.mark.parametrize(
    "looks",
    [
        [Look(0, TIMELESS, None)],
        [Look(0, MISSING, 0), Look(5, MISSING, 5), Look(5, TIMELESS, 10)],
        [Look(0, MISSING, 0), Look(5, ASKED, 0), Look(5, ASKED, 5), Look(5, TIMELESS, 10)],
        [Look(0, ASKED, 0), Look(5, ASKED, 0, "other.tail1234.ts.net"), Look(5, ASKED, 0)],
        [Look(0, MISSING, 0), Look(5, TIMELESS, None, "other.tail1234.ts.net")],
    ],
)
def test_a_missing_certificate_is_remembered_with_its_time(looks: list[Look]) -> None:
    missed = Missed(clock := Clock())
    for look in looks:
        clock.now += look.after
        assert missed.look(WEB_KEY, look.domain, look.certificate) == look.missed_for


def test_a_forgotten_certificate_is_missed_anew() -> None:
    missed = Missed(clock := Clock())
    assert [missed.look(key, WEB, MISSING) for key in (WEB_KEY, OTHER_KEY)] == [0, 0]
    clock.now += 5
    missed.forget(WEB_KEY)
    missed.forget(Key("default", "never"))
    assert [missed.look(key, WEB, TIMELESS) for key in (WEB_KEY, OTHER_KEY)] == [None, 5]
