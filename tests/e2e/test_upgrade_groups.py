"""An upgrade from the Go operator's chart to ours and back with ProxyGroups: no restart, and no failed connection."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from tsoperator.api.names import ANNOTATION_DIGEST

from tests.e2e import go_operator, product
from tests.e2e.cluster import Cluster, Object
from tests.e2e.groupusers import GroupUsers, Inventory
from tests.e2e.load import Outcome
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.full, pytest.mark.thorough]


class Stage(NamedTuple):
    """A change of operators: the inventories before and after it, and the outcome of connections during it."""

    before: Inventory
    after: Inventory
    outcomes: list[Outcome]


@pytest.fixture(scope="module")
def users(
    cluster: Cluster,
    images: ProductImages,
    shared_namespace: str,
    management: Management,
    outside: Peer,
    second: Peer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GroupUsers]:
    """Users with groups that the Go operator has made. At the end our operator runs again."""
    made = GroupUsers(cluster, shared_namespace, [outside, second])
    go_operator.take_over(cluster.bed, tmp_path_factory.mktemp("charts"))
    made.begin()
    made.add("go")
    yield made
    product.deploy(cluster.bed, images)
    cluster.scale_operator(2)  # the chart leaves it with as many Pods as the Go operator had
    made.leave()
    go_operator.forget(cluster, management)


@contextmanager
def changing(users: GroupUsers, maker: str) -> Iterator[list[Outcome]]:
    """Open new connections through the Services of *maker* all the time during the block.

    Yield a list, which gets the outcomes of the connections at the end.
    """
    outcomes: list[Outcome] = []
    with users.at_work(maker) as loads:
        began = time.time()  # the very first packets may be lost: the WireGuard path is made then
        yield outcomes
    outcomes += [load.since(began) for load in loads]


@pytest.fixture(scope="module")
def ours(users: GroupUsers, images: ProductImages) -> Stage:
    """The upgrade of the release to our chart, with the same values and the names of our images."""
    before = users.inventory()
    with changing(users, "go") as outcomes:
        product.install(users.cluster.bed, product.CHART, {**product.CREDENTIALS, **product.image_values(images)})
        eventually(lambda: adopted(users), "our mark on every StatefulSet and Service of the groups")
    return Stage(before, users.inventory(), outcomes)


def adopted(users: GroupUsers) -> bool:
    return all(map(is_marked, [*users.statefulsets(), *users.cluster_ips()]))


def is_marked(obj: Object) -> bool:
    return ANNOTATION_DIGEST in obj["metadata"].get("annotations", {})


def test_an_upgrade_from_the_go_operator_to_ours_does_not_change_egress_groups(ours: Stage) -> None:
    assert ours.after == ours.before
    assert sorted(ours.after.pods) == ["away-0", "gate-0", "gate-1"]


def check(outcomes: list[Outcome]) -> None:
    assert all(outcome.attempts and not outcome.failed for outcome in outcomes), "\n".join(map(str, outcomes))


def test_no_connection_through_an_egress_group_fails_while_our_operator_replaces_the_go_operator(ours: Stage) -> None:
    check(ours.outcomes)


@pytest.fixture(scope="module")
def back(ours: Stage, users: GroupUsers) -> Stage:
    """A rollback to the Go operator by `helm rollback`.

    Before it, our operator adds Services to the groups, beside those that the Go operator added.
    """
    bed = users.cluster.bed
    users.add("ours")
    before = users.inventory()
    with changing(users, "ours") as outcomes:
        with bed.plane.excused("the release went back to the Go operator's roles"):
            bed.helm("rollback", product.RELEASE, "1", "--namespace", NAMESPACE)
            product.wait_ready(bed, 90)
        eventually(lambda: not any(map(is_marked, users.statefulsets())), "no mark of ours on any StatefulSet")
    return Stage(before, users.inventory(), outcomes)


def test_services_that_our_operator_adds_to_egress_groups_after_the_upgrade_replace_no_pod(
    ours: Stage, back: Stage
) -> None:
    assert back.before.pods == ours.after.pods
    assert len(back.before.ports) == 2 * len(ours.after.ports)


def test_a_rollback_to_the_go_operator_does_not_change_egress_groups(back: Stage) -> None:
    assert back.after == back.before


def test_after_a_rollback_the_go_operator_adds_services_to_the_egress_groups(back: Stage, users: GroupUsers) -> None:
    users.add("late")
    after = users.inventory()
    assert after.pods == back.after.pods
    assert len(after.ports) == len(back.after.ports) + 3


def test_no_connection_through_an_egress_group_fails_during_a_rollback_to_the_go_operator(back: Stage) -> None:
    check(back.outcomes)
