"""The testbed's tailnets work like real ones, in their auth keys, grants and deletions of devices."""

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

USER = "alice@example.org"
CAPABILITY = "example.org/cap/test"


@pytest.fixture
def join(bed: Bed, management: Management) -> Iterator[Join]:
    """A function that joins one more device with an auth key. The device is deleted from the tailnet at the end."""
    guest = Peer.at(bed.paths, bed.machines["node"], bed.folder, "guest")

    def start(key: str) -> Peer:
        peer.stop(bed.daemons, guest)
        peer.start(bed.paths, bed.daemons, guest, key)
        return guest

    yield start
    peer.stop(bed.daemons, guest)
    if device := management.device("guest"):
        management.delete(device["nodeId"])


def test_an_auth_key_lets_one_device_join_the_tailnet(join: Join, management: Management) -> None:
    key = management.create_key(["tag:guest"])
    known = join(key).status()["Self"]
    device = management.device("guest") or {}
    assert (known["ID"], known["TailscaleIPs"], known["Tags"]) == (device["nodeId"], device["addresses"], ["tag:guest"])
    with pytest.raises(BedError, match="authkey already used"):
        join(key)


def test_the_two_tailnets_of_the_bed_have_different_devices(join: Join, management: Management, second: Peer) -> None:
    other = Management.log_in(management.machine, SECOND)
    assert (other.device(second.name) is None, other.device("peer")) == (False, None)
    with pytest.raises(BedError, match="API key does not exist"):
        join(other.create_key(["tag:guest"]))
    stranger = Management(management.machine, management.token, SECOND)
    assert stranger.send("GET", "tailnet/-/devices")[1] == "401"


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


def test_a_grant_gives_the_devices_of_a_user_capabilities_only_on_the_destinations_of_the_grant(
    join: Join, management: Management, outside: Peer
) -> None:
    guest = join(management.create_user_key(USER))
    management.replace_grants({"src": [USER], "dst": ["tag:peer"], "app": {CAPABILITY: [{"groups": ["a"]}]}})
    try:
        eventually(lambda: outside.capabilities(guest).get(CAPABILITY) == [{"groups": ["a"]}], "the capability", 20)
        known = outside.whois(guest)
        assert (known["UserProfile"]["LoginName"], known["Node"].get("Tags")) == (USER, None)
        seen = guest.whois(outside)
        assert (seen["UserProfile"]["LoginName"], seen["Node"]["Tags"]) == (outside.fqdn, ["tag:peer"])
        assert CAPABILITY not in guest.capabilities(outside)
    finally:
        management.replace_grants()
    eventually(lambda: CAPABILITY not in outside.capabilities(guest), "the end of the capability", 20)


def test_a_device_of_a_tailnet_without_https_has_no_names_for_certificates(join: Join, management: Management) -> None:
    guest = join(management.create_key(["tag:guest"]))
    assert guest.status()["CertDomains"] == [guest.fqdn]
    management.set_https(False)
    try:
        eventually(lambda: not guest.status()["CertDomains"], "no name for a certificate", 20)
    finally:
        management.set_https(True)
    eventually(lambda: guest.status()["CertDomains"] == [guest.fqdn], "the name again", 20)
