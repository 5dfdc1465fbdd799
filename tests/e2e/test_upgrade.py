"""An upgrade from the Go operator's chart to ours and back: no proxy restarts, and names keep resolving."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tsoperator.api.names import ANNOTATION_DIGEST, LABEL_MANAGED, MANAGED
from tsoperator.runtime.ownership import RECORDERS

from tests.e2e import go_operator, product
from tests.e2e.changeover import Changeover, changeover, nameserver_runs, records
from tests.e2e.cluster import Cluster, Object, dig
from tests.e2e.dnsprobe import NO_ANSWER
from tests.e2e.product import NAMESPACE, ProductImages
from tests.e2e.relays import await_configs
from tests.e2e.testbed import control
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import Peer
from tests.e2e.users import CLASS, POLICY, REPLICAS, Inventory, Users
from tests.e2e.waiting import eventually
from tests.e2e.workloads import BALANCED, egress_service, exposed_service, web

pytestmark = pytest.mark.full(share=1)

NAME = f"go-shop.{control.DOMAIN}"  # this name has to resolve all the time
EARLY = (
    f"early.{control.DOMAIN}"  # the name of a Service that ours exposes, and whose record the Go operator has to delete
)
ONE_LOST = 0.9  # seconds: a question to the Go nameserver may get lost when its Pod ends; a resolver asks again
SILENCE = 90.0  # seconds at most, usually about ten: the Go operator stops a nameserver before it starts another


class Stage(NamedTuple):
    """A change of operators: the inventories before and after it, and the observations during it."""

    before: Inventory
    after: Inventory
    seen: Changeover


@pytest.fixture(scope="module")
def users(
    cluster: Cluster,
    nameserver: str,
    images: ProductImages,
    shared_namespace: str,
    management: Management,
    outside: Peer,
    client: Object,
) -> Iterator[Users]:
    """Users who have no objects yet. At the end our operator runs again."""
    made = Users(cluster, management, shared_namespace, outside, client)
    cluster.apply(CLASS, *web(shared_namespace, "web"), *POLICY, *go_operator.permission("recorders"))
    yield made
    product.deploy(cluster.bed, images)
    cluster.scale_operator(2)  # the chart leaves it with as many Pods as the Go operator had
    made.leave()
    go_operator.forget(cluster, management)


@pytest.fixture(scope="module")
def go(users: Users, nameserver: str, acme_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    """The inventory after the Go operator has replaced ours and has made proxies of every kind."""
    bed = users.cluster.bed
    go_operator.take_over(bed, tmp_path_factory.mktemp("charts"))
    users.add("go")
    users.check(acme_root)
    eventually(lambda: nameserver_runs(users.cluster, go_operator.NAMESERVER_IMAGE), "the Go nameserver alone")
    eventually(users.policy_is_enforced, "the ProxyGroupPolicy in force")
    eventually(lambda: dig(bed, nameserver, NAME).data, f"an address of {NAME}")
    return users.inventory()


@pytest.fixture(scope="module")
def ours(
    go: Inventory, users: Users, nameserver: str, images: ProductImages, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    """The upgrade of the release to our chart, with the same values and the names of our images."""
    cluster, bed = users.cluster, users.cluster.bed
    with changeover(bed, nameserver, NAME, tmp_path_factory.mktemp("ours")) as seen:
        product.install(bed, product.CHART, {**product.CREDENTIALS, **product.image_values(images)})
        eventually(lambda: nameserver_runs(cluster, images.nameserver), "our nameserver alone")
        eventually(lambda: adopted(cluster), "our mark on every StatefulSet and admission policy")
        await_configs(cluster, control.URL)
    return Stage(go, users.inventory(), seen)


def adopted(cluster: Cluster) -> bool:
    marks = ({LABEL_MANAGED: MANAGED}, RECORDERS)
    sets = [each for mark in marks for each in cluster.listed("statefulsets", labels=mark)]
    policies = cluster.listed("validatingadmissionpolicies,validatingadmissionpolicybindings", "")
    return all(ANNOTATION_DIGEST in one["metadata"].get("annotations", {}) for one in (*sets, *policies))


def test_an_upgrade_from_the_go_operator_to_ours_changes_no_proxy_no_device_and_no_object_of_a_user(
    ours: Stage,
) -> None:
    assert ours.after == ours.before
    assert len(ours.after.pods) == 5 + 2 * REPLICAS


def test_our_operator_writes_nothing_before_the_go_operator_has_ended(ours: Stage) -> None:
    (ended,) = ours.seen.ended_go.values()  # one Pod only: the Go operator's Deployment has started no second one
    assert ended
    first = ours.seen.first_write(ours=True)
    assert ended < first
    assert all(write.at < first for write in ours.seen.writes if not write.ours)


def test_names_resolve_while_our_operator_takes_over_from_the_go_operator(ours: Stage) -> None:
    ours.seen.check_names(ONE_LOST)


def test_all_proxies_and_policies_work_after_an_upgrade_to_our_operator(
    ours: Stage, users: Users, acme_root: Path
) -> None:
    users.check(acme_root)
    assert users.policy_is_enforced()


@pytest.fixture(scope="module")
def back(
    ours: Stage,
    users: Users,
    acme_root: Path,
    nameserver: str,
    outside: Peer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Stage:
    """A rollback to the Go operator by `helm rollback`.

    Before it, our operator makes proxies of every kind, beside those that the Go operator made.
    """
    cluster, bed = users.cluster, users.cluster.bed
    users.add("ours")
    users.check(acme_root)
    before = users.inventory()
    early = exposed_service(users.space, "early", BALANCED, hostname="early")
    cluster.apply(early)
    eventually(lambda: dig(bed, nameserver, EARLY).data, f"an address of {EARLY}")
    with changeover(bed, nameserver, NAME, tmp_path_factory.mktemp("back")) as seen:
        with bed.plane.excused("the release went back to the Go operator's roles"):
            bed.helm("rollback", product.RELEASE, "1", "--namespace", NAMESPACE)
            product.wait_ready(bed, 90)
        late = egress_service(users.space, "late", tailnet_ip=outside.address)
        cluster.apply(late)
        eventually(lambda: nameserver_runs(cluster, go_operator.NAMESERVER_IMAGE), "the Go nameserver alone")
        await_configs(cluster, "")
        cluster.device_proxy(late)
        for service in (early, late):
            cluster.remove(service)
    return Stage(before, users.inventory(), seen)


ROLLED = tuple(f"ts-ours-{name}" for name in ("db", "printer", "lb", "gate"))
"""The proxies that our operator made with its init script.

Go operators before 1.103 replace that script by their own.
"""


def kept(found: Inventory) -> Inventory:
    """Return the inventory without the proxies that the Go operator restarts."""
    pods, statefulsets = (
        {name: identity for name, identity in each.items() if not name.startswith(ROLLED)}
        for each in (found.pods, found.statefulsets)
    )
    return found._replace(pods=pods, statefulsets=statefulsets)


def test_a_rollback_to_the_go_operator_changes_only_proxies_with_our_init_script(back: Stage) -> None:
    assert kept(back.after)._replace(keys=back.before.keys) == kept(back.before)
    assert len(kept(back.after).pods) == 5 + 2 * REPLICAS + 2 + REPLICAS
    assert len(back.before.pods) == 2 * (5 + 2 * REPLICAS)


def test_the_go_operator_writes_nothing_before_our_operator_has_ended(back: Stage) -> None:
    ends = [ended for ended in back.seen.ended.values() if ended]
    assert len(ends) == len(back.seen.ended) > 0
    assert max(ends) < back.seen.first_write(ours=False)


def test_all_proxies_and_policies_work_after_a_rollback_to_the_go_operator(
    back: Stage, users: Users, acme_root: Path
) -> None:
    users.check(acme_root)
    assert users.policy_is_enforced()


def test_the_go_operator_deletes_the_record_of_a_service_that_our_operator_exposed(
    back: Stage, nameserver: str, users: Users
) -> None:
    eventually(lambda: EARLY not in records(users.cluster), f"no record of {EARLY}")
    users.cluster.remount(NAMESPACE, {"app": "nameserver"})
    eventually(lambda: dig(users.cluster.bed, nameserver, EARLY).rcode == "NXDOMAIN", f"{EARLY} gone")


def test_during_a_rollback_names_get_no_answer_for_a_while_but_never_a_wrong_answer(
    back: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nthe way back: no answer for {back.seen.silence:.1f} s\n")
    assert len(back.seen.told) == 1, back.seen.told
    assert {answer.rcode for answer in back.seen.resolved} <= {"NXDOMAIN", "SERVFAIL", NO_ANSWER}
    assert back.seen.silence < SILENCE
