"""The testbed's tailnet is one: real devices join, meet, are renamed and deleted as the management API says."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.testbed import control, management, peer
from tests.e2e.testbed.bed import Bed
from tests.e2e.testbed.errors import BedError
from tests.e2e.testbed.management import Management
from tests.e2e.testbed.peer import GREETING, WEB_PORT, Peer
from tests.e2e.testbed.processes import wait_until

PATIENCE = 30.0  # seconds

Join = Callable[..., Peer]


@pytest.fixture
def api(bed: Bed) -> Management:
    return Management.log_in(bed.machines["wan"])


@pytest.fixture
def join(bed: Bed, api: Management) -> Iterator[Join]:
    """Lets one more device in, beside the cluster; it is gone from the tailnet afterwards."""
    guest = Peer.at(bed.paths, bed.machines["node"], bed.folder, "guest")

    def start(key: str = "") -> Peer:
        peer.stop(bed.daemons, guest)
        peer.start(bed.paths, bed.daemons, guest, key or api.create_key(["tag:guest"]))
        return guest

    yield start
    peer.stop(bed.daemons, guest)
    for device in api.devices():
        if device["hostname"] == guest.name:
            api.delete(device["nodeId"])


def eventually(holds: Callable[[], bool]) -> bool:
    """Tell whether *holds* in time; a program that fails counts as no."""

    def succeeds() -> bool:
        try:
            return holds()
        except BedError:
            return False

    return wait_until(succeeds, PATIENCE)


def reaches(device: Peer, host: str) -> bool:
    """Tell whether *device* gets the web page of *host* in time."""
    return eventually(lambda: device.curl(f"http://{host}:{WEB_PORT}/") == GREETING)


def node_id(api: Management, hostname: str) -> str:
    device = api.device(hostname)
    assert device, f"no device {hostname}"
    return str(device["nodeId"])


def test_devices_reach_each_other_by_name_and_by_address(join: Join, outside: Peer) -> None:
    guest = join()
    assert reaches(guest, f"peer.{control.DOMAIN}")
    assert reaches(guest, outside.address)
    assert reaches(outside, f"guest.{control.DOMAIN}")


def test_a_device_is_listed_as_it_knows_itself(join: Join, api: Management) -> None:
    itself = join().status()["Self"]
    device = api.device("guest")
    assert device
    assert itself["ID"] == device["nodeId"]
    assert itself["DNSName"] == f"{device['name']}."
    assert itself["TailscaleIPs"] == device["addresses"]
    assert itself.get("Tags") == device["tags"] == ["tag:guest"]


def test_a_key_lets_one_device_in(join: Join, api: Management) -> None:
    key = api.create_key()
    join(key)
    with pytest.raises(BedError, match="authkey already used"):
        join(key)


def test_a_renamed_device_is_reached_by_its_new_name(join: Join, api: Management, outside: Peer) -> None:
    join()
    api.set_name(node_id(api, "guest"), "first")
    assert api.device("guest") is None
    assert reaches(outside, f"first.{control.DOMAIN}")


def test_tags_reach_the_device(join: Join, api: Management) -> None:
    guest = join()
    api.set_tags(node_id(api, "guest"), ["tag:other"])
    assert eventually(lambda: guest.status()["Self"].get("Tags") == ["tag:other"])


def test_a_route_that_a_device_advertises_leads_to_it_until_it_does_no_more(join: Join, outside: Peer) -> None:
    def routes() -> list[str]:
        peers = outside.status()["Peer"].values()
        return [route for peer in peers if peer["HostName"] == guest.name for route in peer.get("PrimaryRoutes", ())]

    guest = join()
    guest.tailscale("set", "--advertise-routes=198.51.100.0/24")
    assert eventually(lambda: routes() == ["198.51.100.0/24"])
    guest.tailscale("set", "--advertise-routes=")
    assert eventually(lambda: routes() == [])


def test_a_deleted_device_is_cut_off(join: Join, api: Management, outside: Peer) -> None:
    guest = join()
    page = f"http://{outside.address}:{WEB_PORT}/"
    assert reaches(guest, outside.address)
    api.delete(node_id(api, "guest"))
    assert eventually(lambda: guest.status()["BackendState"] == "NeedsLogin")
    with pytest.raises(BedError):
        guest.curl(page)


def test_a_restarted_device_needs_no_key(join: Join, api: Management, bed: Bed, outside: Peer) -> None:
    guest = join()
    before = node_id(api, "guest")
    bed.daemons.restart("guest-tailscaled", guest.machine)
    assert reaches(guest, outside.address)
    assert node_id(api, "guest") == before


def test_a_certificate_chains_to_the_acme_root(join: Join, bed: Bed, tmp_path: Path) -> None:
    guest = join()
    chain, root = tmp_path / "chain.pem", tmp_path / "root.pem"
    name = f"guest.{control.DOMAIN}"
    guest.tailscale("cert", f"--cert-file={chain}", f"--key-file={tmp_path / 'key.pem'}", name)
    root.write_text(control.acme_root(bed.paths, bed.machines["wan"]))
    checked = guest.machine.run(
        ["openssl", "verify", "-verify_hostname", name, "-CAfile", root, "-untrusted", chain, chain]
    )
    assert checked.strip() == f"{chain}: OK"


def test_https_is_served_to_other_devices(join: Join, bed: Bed, outside: Peer) -> None:
    guest = join()
    guest.tailscale("serve", "--bg", str(WEB_PORT))
    root = bed.folder / "acme-root.pem"
    root.write_text(control.acme_root(bed.paths, bed.machines["wan"]))
    url = f"https://guest.{control.DOMAIN}/"
    # The first handshakes may fail while they race for the certificate.
    assert eventually(lambda: outside.curl("--cacert", root, url) == GREETING)


def test_the_control_server_itself_forgets_a_deleted_device(join: Join, api: Management) -> None:
    join()
    deleted = node_id(api, "guest")
    api.delete(deleted)
    node = next(node for node in management.real_nodes(api.machine) if node["StableID"] == deleted)
    assert node.get("Expired")
    assert not node.get("Addresses")
