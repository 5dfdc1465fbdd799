"""The Events about the certificate of an Ingress, or of the API server proxy.

A standalone proxy gets the certificate at the first HTTPS request. In a ProxyGroup, replica 0 gets it by itself, before
any request. An Ingress has no conditions, so the operator reports the progress by Events.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tsoperator.proxy.secret import Certificate
from tsoperator.proxy.x509 import Validity
from tsoperator.runtime.plan import Note

PATIENCE: Final = 600.0
"""The seconds after which an Event says that a certificate is missing. Usually a certificate comes within a minute."""

_RENEWED_BEFORE: Final = timedelta(days=14)
"""The time before the expiry of a certificate at which tailscaled should have renewed it.

If a quarter of the certificate's lifetime is less than this, that quarter is used instead.
"""


@dataclass(frozen=True, slots=True)
class ObservedCertificate:
    """The facts about the *certificate* for *domain* at the time *now*.

    *missed_for* is the number of seconds since `MissingCertificate.at`. It still grows after the certificate has
    arrived; it is None if the certificate was never missing. *writer* is the Pod of a ProxyGroup that gets the
    certificate; it is empty for a standalone proxy. *has_class* tells whether users can choose a ProxyClass for the
    proxy.
    """

    domain: str
    certificate: Certificate
    now: datetime
    missed_for: float | None = None
    writer: str = ""
    has_class: bool = True


@dataclass(frozen=True, slots=True)
class News:
    """The Events about a certificate, and the number of seconds after which the Events can be different."""

    notes: tuple[Note, ...] = ()
    requeue_after: float | None = None


class MissingCertificate(NamedTuple):
    """The fact that the certificate for *domain* has been missing since the time *at*.

    *asked* tells whether the proxy has asked for the certificate.
    """

    domain: str
    asked: bool
    at: float


def missing(
    last: MissingCertificate | None, domain: str, certificate: Certificate, now: float
) -> MissingCertificate | None:
    """Return the fact that the *certificate* for *domain* is missing, or was missing before it arrived.

    Return None if the operator has never seen that it was missing. *last* is the result of the previous call, and *now*
    is the present time. The time in the fact begins anew when the proxy asks for the certificate, or needs a
    certificate for another domain.
    """
    if certificate.is_there:
        return last if last and last.domain == domain else None
    return (
        last if last and last[:2] == (domain, certificate.asked) else MissingCertificate(domain, certificate.asked, now)
    )


def news(seen: ObservedCertificate) -> News:
    """Return the Events about the certificate in *seen*, and the seconds after which the Events can be different."""
    if not seen.certificate.is_there:
        left = PATIENCE - (seen.missed_for or 0.0)
        return News(requeue_after=left) if left > 0 else News((_missing_note(seen),))
    ready = Note("Normal", "CertificateReady", f"https://{seen.domain}/ is served with a certificate")
    notes = (ready,) if seen.missed_for is not None else ()
    if (validity := seen.certificate.validity) is None:
        return News(notes)
    recent_for = _until_renewal_is_late(validity, seen.now)
    return News(notes, recent_for) if recent_for > 0 else News((_not_renewed(seen, validity),))


def _until_renewal_is_late(validity: Validity, now: datetime) -> float:
    """Return the seconds until the time by which a certificate with this *validity* should have been renewed."""
    before = min(_RENEWED_BEFORE, (validity.ends - validity.starts) / 4)
    return (validity.ends - before - now).total_seconds()


def _not_renewed(seen: ObservedCertificate, validity: Validity) -> Note:
    verb = "expires" if seen.now < validity.ends else "expired"
    cure = (
        f": see what the log of Pod {seen.writer} says of ACME"
        if seen.writer
        else (
            f", which the proxy does at an HTTPS request: open https://{seen.domain}/, and if this is told again a day "
            "later see what the log of the proxy's Pod says of ACME"
        )
    )
    message = f"the certificate of {seen.domain} {verb} on {validity.ends:%Y-%m-%d} and has not been renewed{cure}"
    return Note("Warning", "CertificateNotRenewed", message)


def _missing_note(seen: ObservedCertificate) -> Note:
    if not seen.certificate.asked and not seen.writer:
        message = (
            f"there is no certificate of {seen.domain} yet: the proxy gets it at the first HTTPS request, which takes "
            f"some seconds; open https://{seen.domain}/"
        )
        return Note("Normal", "CertificatePending", message, once=True)  # an Ingress that nobody opens is no fault
    if seen.writer:
        what = f"Pod {seen.writer} has got no certificate of {seen.domain}: see what its log says of ACME"
    else:
        what = (
            f"the proxy has asked for a certificate of {seen.domain} and has none: see what the log of its Pod says of "
            "ACME"
        )
    staging = ": for tests there is useLetsEncryptStagingEnvironment of a ProxyClass" if seen.has_class else ""
    message = f"{what}. Let's Encrypt may have its limits (5 certificates of one name a week){staging}"
    return Note("Warning", "CertificateMissing", message)
