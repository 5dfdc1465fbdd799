"""Ports that were allocated a moment ago."""

from tsoperator.api.objects import Key
from tsoperator.reconcilers.service.view import Reservations

DB, WEB = Key("default", "db"), Key("default", "web")


def test_a_port_is_reserved_against_others_of_the_group_until_another_is_reserved_or_it_is_freed() -> None:
    reservations = Reservations()
    reservations.reserve("egress", DB, [9999])
    reservations.reserve("egress", DB, [10000, 10001])
    assert reservations.of_others("egress", WEB) == {10000, 10001}
    assert (reservations.of_others("egress", DB), reservations.of_others("other", WEB)) == (set(), set())
    reservations.reserve("other", DB, [10002])
    assert (reservations.of_others("egress", WEB), reservations.of_others("other", WEB)) == (set(), {10002})
    reservations.reserve("other", WEB, [10003])
    for _ in range(2):
        reservations.free(DB)
        assert reservations.of_others("other", Key("default", "third")) == {10003}
