"""Reservations: ports of a group's proxies that were allocated so recently that the cache may not show them yet."""

from tsoperator.api.objects import Key
from tsoperator.reconcilers.service.view import Reservations

DB, WEB = Key("default", "db"), Key("default", "web")


def test_other_services_of_a_group_see_the_ports_that_a_service_reserved_last_until_it_frees_them() -> None:
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
