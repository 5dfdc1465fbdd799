"""The parsed fields of a device, and the names by which it is looked up."""

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter
from tsoperator.api.device import Device, lookup_name, lookup_names

DEVICE = TypeAdapter(Device)


def test_a_device_in_the_json_of_tailscale_is_parsed() -> None:
    device = DEVICE.validate_json(
        """{"id": "3000000000000001", "nodeId": "n000001CNTRL", "name": "db.tail1234.ts.net", "tags": ["tag:k8s"],
        "hostname": "DB", "addresses": ["100.64.0.1"], "lastSeen": "2026-01-02T03:04:05.123456789Z",
        "connectedToControl": false, "authorized": false, "isExternal": true, "clientVersion": "1.103.0"}"""
    )
    seen = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
    name, tags, addresses = "db.tail1234.ts.net", ("tag:k8s",), ("100.64.0.1",)
    assert device == Device("n000001CNTRL", name, "DB", addresses, tags, False, True, seen, False)
    assert device.short_name == "db"


@pytest.mark.parametrize("node_id", ["7", '"7"'])
def test_a_device_in_the_json_of_headscale_is_parsed(node_id: str) -> None:
    device = DEVICE.validate_json(f'{{"id": {node_id}, "nodeId": {node_id}, "name": "db"}}')
    assert device == Device("7", "db")
    assert device.short_name == "db"
    assert (device.last_seen, device.connected) == (None, None)


def test_a_device_with_null_lists_and_empty_times_but_without_a_node_id_is_parsed() -> None:
    device = DEVICE.validate_python({"id": "7", "name": "db", "tags": None, "addresses": None, "lastSeen": ""})
    assert (device.node_id, device.tags, device.addresses, device.last_seen) == ("7", (), (), None)


def test_names_and_addresses_are_normalized_before_a_device_is_looked_up() -> None:
    names = {"DB.tail1234.ts.net.": "db.tail1234.ts.net", "Db": "db", "100.64.0.9": "100.64.0.9"}
    assert {text: lookup_name(text) for text in names} == names
    assert lookup_name("FD7A:115C:A1E0:0::9") == "fd7a:115c:a1e0::9"


@pytest.mark.parametrize(("external", "label"), [(False, {"db"}), (True, set())])
def test_a_device_is_looked_up_by_its_names_and_addresses(external: bool, label: set[str]) -> None:
    device = Device("n1", "DB.tail1234.ts.net", addresses=("100.64.0.9", "FD7A:115C:A1E0:0::9"), external=external)
    assert lookup_names(device) == {"db.tail1234.ts.net", "100.64.0.9", "fd7a:115c:a1e0::9", *label}
