"""Where an image that Pods name lies in the local registry."""

from typing import NamedTuple

import pytest

from tests.e2e.testbed.registry import ADDRESS, address_of


class Case(NamedTuple):
    name: str
    path: str


@pytest.mark.parametrize(
    "case",
    [
        Case("debian:12", "library/debian:12"),
        Case("tailscale/tailscale:v1", "tailscale/tailscale:v1"),
        Case("registry.example.org/some/image:1", "some/image:1"),
        Case("localhost:5001/image", "image"),
        Case(f"{ADDRESS}/testbed/base:1", "testbed/base:1"),
    ],
    ids=lambda case: case.name,
)
def test_a_name_leads_to_the_local_registry(case: Case) -> None:
    assert address_of(case.name) == f"{ADDRESS}/{case.path}"
