"""The range of the cluster's node ports, as the API server gives it."""

import pytest
from clustersim.faults import Failure
from tsoperator.api.objects import SERVICE
from tsoperator.kube.errors import StatusError
from tsoperator.reconcilers.proxyclass.cluster import NodePorts, range_in
from tsoperator.reconcilers.proxyclass.ports import Range

from tests.support.operator import NAMESPACE, World


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("777777: provided port is not in the valid range. The range of valid ports is 30000-32767", (30000, 32767)),
        ("ports are 30000-30000", (30000, 30000)),
        ("30000", None),
        ("a-b", None),
        ("1-2-3", None),
        ("30000-32767 and 40000-40001", None),
        ("30000-70000", None),
        ("32767-30000", None),
        ("300000-327670", None),
    ],
)
def test_the_range_of_node_ports_is_read_from_a_message_that_contains_exactly_one_range(
    text: str, found: tuple[int, int] | None
) -> None:
    assert range_in(text) == (Range(*found) if found else None)


async def test_the_operator_finds_the_range_of_node_ports_with_two_requests_and_no_write(cluster: World) -> None:
    node_ports = NodePorts(cluster.api, NAMESPACE)
    assert (node_ports.asked, node_ports.range) == (False, None)
    before = cluster.requests()
    await node_ports.find()
    assert (node_ports.asked, node_ports.range) == (True, Range(30000, 32767))
    assert (await cluster.api.list(SERVICE, NAMESPACE)).items == []
    assert (
        sum((cluster.requests() - before).values()) <= 2
    )  # one for the list above, and one for the range if the simulation sees it


@pytest.mark.simulated
async def test_the_request_for_the_range_of_node_ports_is_repeated_after_an_error_but_not_after_an_answer(
    cluster: World,
) -> None:
    cluster.sim.faults.fail(Failure(500, verb="create", plural="services"))
    failing, refused = NodePorts(cluster.api, NAMESPACE), NodePorts(cluster.api, NAMESPACE)
    with pytest.raises(StatusError):
        await failing.find()
    assert not failing.asked
    await failing.find()
    assert (failing.asked, failing.range) == (True, Range(30000, 32767))
    cluster.sim.faults.fail(Failure(403, verb="create", plural="services"))
    await refused.find()
    assert (refused.asked, refused.range) == (True, None)
