"""The testbed's tailnets work like real ones: an auth key lets one device in, and a deleted device is cut off."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.testbed import peer
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.control import SECOND
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management, real_nodes
from tests.e2e.testbed.peer import GREETING, WEB_PORT, Peer
from tests.e2e.waiting import eventually

Join = Callable[[str], Peer]


@pytest.fixture
def join(bed: Bed, management: Management) -> Iterator[Join]:
    """A function that lets one more device join by an auth key. The device is deleted from the tailnet afterwards."""
    guest = Peer.at(bed.paths, bed.machines["node"], bed.folder, "guest")

    def start(key: str) -> Peer:
        peer.stop(bed.daemons, guest)
        peer.start(bed.paths, bed.daemons, guest, key)
        return guest

    yield start
    peer.stop(bed.daemons, guest)
    if device := management.device("guest"):
        management.delete(device["nodeId"])


def test_an_auth_key_lets_one_device_in(join: Join, management: Management) -> None:
    key = management.create_key(["tag:guest"])
    known = join(key).status()["Self"]
    device = management.device("guest") or {}
    assert (known["ID"], known["TailscaleIPs"], known["Tags"]) == (device["nodeId"], device["addresses"], ["tag:guest"])
    with pytest.raises(BedError, match="authkey already used"):
        join(key)


def test_the_second_tailnet_has_other_devices_than_the_first(join: Join, management: Management, second: Peer) -> None:
    other = Management.log_in(management.machine, SECOND)
    assert (other.device(second.name) is None, other.device("peer")) == (False, None)
    with pytest.raises(BedError, match="API key does not exist"):
        join(other.create_key(["tag:guest"]))
    with pytest.raises(BedError, match="API token invalid"):
        Management(management.machine, management.token, SECOND).devices()


def test_a_deleted_device_loses_its_connections(join: Join, management: Management, outside: Peer) -> None:
    guest = join(management.create_key(["tag:guest"]))
    page = f"http://{outside.address}:{WEB_PORT}/"
    eventually(lambda: guest.curl(page) == GREETING, "the page", 30)
    deleted = guest.status()["Self"]["ID"]
    management.delete(deleted)
    eventually(lambda: guest.status()["BackendState"] == "NeedsLogin", "the device is logged out", 30)
    with pytest.raises(BedError):
        guest.curl(page)
    node = next(node for node in real_nodes(management.machine) if node["StableID"] == deleted)
    assert (node.get("Expired"), node.get("Addresses")) == (True, None)
