"""Ports that were allocated a moment ago."""

from tsoperator.api.objects import Key
from tsoperator.reconcilers.service.reservations import Reservations

DB, WEB = Key("default", "db"), Key("default", "web")


def test_a_port_is_reserved_against_all_other_services_of_the_group() -> None:
    reservations = Reservations()
    reservations.reserve("egress", DB, [10000, 10001])
    assert reservations.of_others("egress", WEB) == {10000, 10001}
    assert (reservations.of_others("egress", DB), reservations.of_others("other", WEB)) == (set(), set())


def test_a_reservation_replaces_the_one_before_also_at_another_group() -> None:
    reservations = Reservations()
    reservations.reserve("egress", DB, [10000])
    reservations.reserve("egress", DB, [10001])
    assert reservations.of_others("egress", WEB) == {10001}
    reservations.reserve("other", DB, [10002])
    assert (reservations.of_others("egress", WEB), reservations.of_others("other", WEB)) == (set(), {10002})


def test_freed_ports_can_be_used_by_others() -> None:
    reservations = Reservations()
    reservations.reserve("egress", DB, [10000])
    reservations.reserve("egress", WEB, [10001])
    reservations.free(DB)
    reservations.free(DB)
    assert reservations.of_others("egress", Key("default", "third")) == {10001}
