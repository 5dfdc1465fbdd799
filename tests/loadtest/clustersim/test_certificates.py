"""Tests of the certificates that replica 0 of an ingress ProxyGroup stores in Secrets."""

from datetime import UTC, datetime, timedelta

import pytest
from clustersim.certificates import CHECKED_EVERY, LIFETIME, RENEWED_BEFORE, Certificates, domains_in
from clustersim.objects import ROLE, ROLEBINDING, SECRET, Object, Resource
from clustersim.store import Store
from clustersim.x509 import end_of

from tests.loadtest.clustersim.running import BINDING, DOMAIN, ROLE_OF_DOMAIN, prepare_certificate, state
from tests.support.virtual_time import Clock

START = datetime(2026, 1, 1, tzinfo=UTC)
LISTED = [DOMAIN]
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


class Ground:
    """A store with a clock that the test moves, and the `Certificates` that write into the store."""

    def __init__(self, shared: tuple[str, str] | None = None) -> None:
        self.clock = Clock(0)
        self.store = Store(clock=lambda: START + timedelta(seconds=self.clock.now))
        self.certificates = Certificates(self.store, "tailscale", "ing", shared)

    def after(self, time: timedelta, listed: list[str] = LISTED) -> str:
        """Let *time* pass, and let the replica check its certificate.

        Return the stored certificate, or "" if there is none. *listed* are the domains for which the control server
        gives the replica certificates.
        """
        self.clock.now += time.total_seconds()
        self.certificates.follow([DOMAIN], listed)
        return state(self.store, DOMAIN).get("tls.crt", "") if self.store.find(SECRET, "tailscale", DOMAIN) else ""


def prepared(shared: tuple[str, str] | None = None) -> Ground:
    ground = Ground(shared)
    prepare_certificate(ground.store)
    return ground


def role(**rule: list[str]) -> Object:
    return {"rules": [{**ROLE_OF_DOMAIN["rules"][0], **rule}]}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (SECRET, None),
        (ROLE, None),
        (ROLEBINDING, None),
        (ROLE, role(resourceNames=["other"])),
        (ROLE, role(verbs=["get", "update"])),
        (ROLE, role(resources=["configmaps"])),
        (ROLEBINDING, {"subjects": [{**BINDING["subjects"][0], "name": "other"}]}),
        (ROLEBINDING, {"roleRef": {**BINDING["roleRef"], "name": "other"}}),
    ],
)
def test_a_replica_tries_again_to_store_a_certificate_that_could_not_be_stored(
    kind: Resource, patch: Object | None
) -> None:
    ground = prepared()
    good = ground.store.get(kind, "tailscale", DOMAIN)
    ground.store.delete(kind, "tailscale", DOMAIN)
    named = {"metadata": {"name": DOMAIN, "namespace": "tailscale"}}
    if patch is not None:
        ground.store.create(kind, {**good, **patch, **named})
    assert ground.after(timedelta()) == ""
    if patch is not None:
        ground.store.delete(kind, "tailscale", DOMAIN)
    ground.store.create(kind, {**good, **named})
    assert ground.after(MINUTE - SECOND) == ""
    assert end_of(ground.after(SECOND)) == START + MINUTE + LIFETIME


@pytest.mark.parametrize("failures", range(1, 6))
def test_after_each_failure_to_store_a_certificate_the_replica_waits_longer(failures: int) -> None:
    ground, waits = prepared(), [MINUTE, 10 * MINUTE, 100 * MINUTE, CHECKED_EVERY, CHECKED_EVERY]
    ground.store.delete(ROLE, "tailscale", DOMAIN)
    for passed in [timedelta(), *waits][:failures]:
        ground.after(passed)
    ground.store.create(ROLE, ROLE_OF_DOMAIN)
    assert ground.after(waits[failures - 1] - SECOND) == ""
    assert ground.after(SECOND)
    ground.store.delete(SECRET, "tailscale", DOMAIN)
    ground.after(CHECKED_EVERY)
    ground.store.create(SECRET, {"metadata": {"name": DOMAIN, "namespace": "tailscale"}})
    assert ground.after(MINUTE)


def test_a_certificate_is_renewed_when_it_has_less_than_30_days_left() -> None:
    ground = prepared()
    first = ground.after(timedelta())
    assert ground.after(LIFETIME - RENEWED_BEFORE - SECOND) == first
    ground.certificates = Certificates(ground.store, "tailscale", "ing", None)
    assert ground.after(timedelta()) == first
    second = ground.after(CHECKED_EVERY)
    assert end_of(second) == ground.store.now() + LIFETIME
    ground.store.merge(SECRET, "tailscale", DOMAIN, {"stringData": {"tls.crt": "unreadable"}})
    assert end_of(ground.after(CHECKED_EVERY)) == ground.store.now() + LIFETIME


def test_a_replica_makes_a_certificate_once_the_tailnet_lists_its_domain_or_the_replica_needs_it_again() -> None:
    ground = prepared()
    assert ground.after(timedelta(), listed=[]) == ""
    assert ground.after(timedelta())
    ground.store.merge(SECRET, "tailscale", DOMAIN, {"data": {"tls.crt": None}})
    assert ground.after(timedelta()) == ""
    ground.certificates.follow([], LISTED)
    assert ground.after(timedelta())


def test_the_certificates_of_one_acme_account_have_the_same_account_fingerprint() -> None:
    ground = prepared(("acme", "a.pem"))
    ground.after(timedelta())
    before = state(ground.store, DOMAIN)
    ground.after(LIFETIME)
    after = state(ground.store, DOMAIN)
    assert before["tls.crt"] != after["tls.crt"]
    assert before["acme-account-fingerprint"] == after["acme-account-fingerprint"]
    ground.store.delete(SECRET, "tailscale", "acme")
    assert ground.after(LIFETIME) == after["tls.crt"]


@pytest.mark.parametrize(
    ("services", "domains"),
    [
        (None, []),
        ({"svc:a": {"Web": None}}, []),
        ({"svc:a": {"Web": {"a.example.org:443": {}, "a.example.org:80": {}}}}, ["a.example.org"]),
        ({"svc:a": {"Web": {"a.example.org:80": {}}}, "svc:b": {"Web": {"b.example.org:443": {}}}}, ["b.example.org"]),
    ],
)
def test_a_tailscale_service_with_https_in_its_serve_config_needs_a_certificate(
    services: Object | None, domains: list[str]
) -> None:
    assert domains_in({"Services": services}) == domains
