"""The paths of an Ingress that a ProxyGroup serves.

The tests of the Ingress's plan are about the paths of an own proxy.
"""

import pytest
from tsoperator.proxy.paths import hosted_paths

from tests.support.objects import backend_service, live_ingress, to_path

NAME = "web.tail1234.ts.net"


@pytest.mark.parametrize(
    ("name", "host", "served"),
    [
        (NAME, "", True),
        (NAME, NAME, True),
        (NAME, "web", True),
        (NAME, "other.example.org", False),
        ("", "other.example.org", True),
    ],
)
def test_a_group_serves_the_rules_for_the_name_of_the_ingress_and_those_for_any_host(
    name: str, host: str, served: bool
) -> None:
    rule = {"http": {"paths": [to_path("/a")]}} | ({"host": host} if host else {})
    found = hosted_paths(live_ingress(spec={"rules": [rule]}), {"web": backend_service()}, name)
    assert found.origins == ({"/a": "http://192.0.2.4:8080"} if served else {})
    assert [note.reason for note in found.notes] == ["InvalidIngressBackend"] * (not served)


def test_an_ingress_without_tls_is_served_only_at_its_full_name() -> None:
    rules = [{"host": host, "http": {"paths": [to_path(f"/{host}")]}} for host in (NAME, "web")]
    found = hosted_paths(live_ingress(host="", spec={"rules": rules}), {"web": backend_service()}, NAME)
    assert [*found.origins] == [f"/{NAME}"]
