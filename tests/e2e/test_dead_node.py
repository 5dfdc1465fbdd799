"""A node dies with a Pod of an egress group on it. Soon new connections use only Pods on other nodes."""

import time
from collections.abc import Callable, Iterator

import pytest
from tsoperator.api.names import CONDITION_PROXYGROUP_READY, LABEL_PARENT_NAME

from tests.e2e.cluster import Cluster, condition
from tests.e2e.groups import await_group, await_served, devices
from tests.e2e.load import Load, Outcome
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.network import FIRST_NODE, SECOND_NODE
from tests.e2e.testbed.node import TAINT, Node
from tests.e2e.testbed.peer import Peer
from tests.e2e.testbed.processes import wait_until
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PEER_NAME, group_service, proxy_group, targets
from tests.support.manifests import proxy_class

pytestmark = [pytest.mark.full(share=6), pytest.mark.timeout(600, func_only=True)]

WIDE = proxy_group("wide", replicas=2, proxyClass="spread")
SPREAD = proxy_class(
    "spread",
    statefulSet={
        "pod": {
            "tolerations": [{"operator": "Exists", **TAINT}],
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {LABEL_PARENT_NAME: WIDE["metadata"]["name"]}},
                }
            ],
        }
    },
)
FAILING = 65.0  # seconds from the node's end in which connections are allowed to fail
AFTERWARDS = 60.0  # seconds after `FAILING` in which no connection is allowed to fail
ENDING = 150.0  # seconds for a deleted group: the Pod's grace period, a minute, and some to spare


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[Node]:
    """A second node, with one of the two Pods of a group on it."""
    try:
        with cluster.bed.second_node() as node:
            cluster.apply(SPREAD, WIDE)
            pods = await_group(cluster, WIDE, 2)
            assert sorted(pod["spec"]["nodeName"] for pod in pods) == [FIRST_NODE.name, SECOND_NODE.name]
            yield node
            cluster.delete("proxygroup", WIDE["metadata"]["name"])
    finally:
        cluster.remove(WIDE)
        cluster.delete("proxyclass", SPREAD["metadata"]["name"])


@pytest.fixture(scope="module")
def outcome(cluster: Cluster, nameserver: str, node: Node, shared_namespace: str, outside: Peer) -> Outcome:
    """The outcome of connections by both names of a Service of the group, from the moment when the node dies."""
    service = group_service(shared_namespace, "db", WIDE["metadata"]["name"], tailnet_fqdn=PEER_NAME)
    cluster.apply(service)
    await_served(cluster, service)
    with Load.on(cluster, shared_namespace, outside.greeting, targets(service, PEER_NAME)) as load:
        died = time.time()
        node.die()
        wait_until(lambda: time.time() > died + FAILING + AFTERWARDS, FAILING + AFTERWARDS + 1)
    return load.since(died)


def test_new_connections_fail_for_about_a_minute_at_most_when_a_node_dies(
    outcome: Outcome, say: Callable[[object], None]
) -> None:
    died = outcome.attempts[0].at
    say(f"a node died with one of 2 Pods: {outcome}")
    assert outcome.failed, "no connection went by the Pod on the node that died"
    assert outcome.failed[-1].at - died <= FAILING
    assert outcome.attempts[-1].at - died > FAILING + AFTERWARDS - 5


def test_a_deleted_proxygroup_is_gone_although_one_of_its_pods_is_on_a_dead_node(
    cluster: Cluster, outcome: Outcome, management: Management
) -> None:
    (lost,) = [pod for pod in cluster.children(WIDE, "pods") if pod["spec"]["nodeName"] == SECOND_NODE.name]
    name = lost["metadata"]["name"]
    cluster.delete("proxygroup", WIDE["metadata"]["name"])

    def ends() -> bool:
        return condition(cluster.look(WIDE), CONDITION_PROXYGROUP_READY).get("reason") == "ProxyGroupTerminating"

    eventually(ends, "a condition that says that the group ends", 30)
    eventually(lambda: cluster.get("proxygroup", WIDE["metadata"]["name"]) is None, "the group gone", ENDING)
    assert devices(management, "wide-") == []
    said = [each["message"] for each in cluster.listed("events", "default") if each["reason"] == "PodNotWaitedFor"]
    assert any(name in message for message in said), said
