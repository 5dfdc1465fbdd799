import pytest
from clustersim.objects import NODE
from clustersim.sim import SimOptions, cluster_sim
from clustersim.tailnet import AuthKeyError, Tailnet

from tests.loadtest.clustersim.running import new_key, until
from tests.support.virtual_time import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(1_700_000_000.0)


@pytest.fixture
def tailnet(clock: Clock) -> Tailnet:
    return Tailnet(clock=clock)


def test_a_device_with_a_taken_hostname_gets_the_first_free_number_behind_its_name(tailnet: Tailnet) -> None:
    devices = [tailnet.register(new_key(tailnet), "db") for _ in range(3)]
    assert [device.name.partition(".")[0] for device in devices] == ["db", "db-1", "db-2"]
    assert [device.addresses[0] for device in devices] == ["100.64.0.1", "100.64.0.2", "100.64.0.3"]
    tailnet.rename_device(devices[1], "")
    assert tailnet.devices[devices[1].node_id].name == devices[1].name
    tailnet.delete_device(devices[0])
    assert tailnet.set_hostname(devices[1].node_id, "db") == devices[1]
    assert tailnet.register(new_key(tailnet), "db").name == devices[0].name


def test_the_tailnet_refuses_a_single_use_auth_key_the_second_time(tailnet: Tailnet) -> None:
    single, reusable = new_key(tailnet), new_key(tailnet, reusable=True)
    for key in (single, reusable, reusable):
        tailnet.register(key, "db")
    with pytest.raises(AuthKeyError, match="already used"):
        tailnet.register(single, "web")


def test_the_tailnet_refuses_an_expired_or_unknown_auth_key(tailnet: Tailnet, clock: Clock) -> None:
    expired = new_key(tailnet, seconds=60)
    clock.now += 60
    tailnet.dead_keys = 1
    for key in (expired, new_key(tailnet), "tskey-auth-k1-2"):
        with pytest.raises(AuthKeyError):
            tailnet.register(key, "db")
    assert tailnet.register(new_key(tailnet), "db").connected


def test_a_name_that_an_admin_gave_stays_when_the_hostname_changes(tailnet: Tailnet) -> None:
    device = tailnet.register(new_key(tailnet), "db")
    tailnet.rename_device(device, "orders")
    renamed = tailnet.set_hostname(device.node_id, "web")
    assert renamed.name == "orders.tail1234.ts.net"
    tailnet.rename_device(renamed, "")
    assert tailnet.devices[device.node_id].name == "web.tail1234.ts.net"
    assert tailnet.set_hostname(device.node_id, "shop").name == "shop.tail1234.ts.net"
    assert tailnet.register(new_key(tailnet), "web").name == "web.tail1234.ts.net"


def test_a_route_that_a_device_advertises_stays_until_the_device_withdraws_it(tailnet: Tailnet) -> None:
    node_id = tailnet.register(new_key(tailnet), "router").node_id
    offers = [(("10.40.0.0/14",), True), (None, None), ((), None), (None, False)]
    devices = [tailnet.advertise(node_id, *offer) for offer in offers]
    assert [device.advertised_routes for device in devices] == [("10.40.0.0/14",), ("10.40.0.0/14",), (), ()]
    assert [device.app_connector for device in devices] == [True, True, True, False]


async def test_a_simulated_cluster_begins_with_the_devices_and_the_nodes_in_its_options() -> None:
    options = SimOptions(devices=("db.tail1234.ts.net", "printer.tail1234.ts.net=100.64.10.10"), nodes=("a", "b"))
    async with cluster_sim(options) as sim:
        await until(sim.store, lambda: len(sim.store.list(NODE)) == 2)
        assert sim.control.addresses("printer.tail1234.ts.net")[0] == "100.64.10.10"
        assert sim.control.addresses("db.tail1234.ts.net")
        assert not sim.control.has_all_targets
