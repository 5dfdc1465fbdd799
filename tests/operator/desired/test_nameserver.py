"""What the nameserver's objects have in common."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.desired.nameserver import elected, is_upstream, nameserver_image, nameserver_labels

from tests.support.objects import deleting, live_dnsconfig, settings

OLD = live_dnsconfig("b", creationTimestamp="2026-01-01T00:00:00Z")
NEW = live_dnsconfig("a", creationTimestamp="2026-01-02T00:00:00Z")


def test_the_oldest_dnsconfig_counts() -> None:
    assert elected([NEW, OLD]) == elected([OLD, NEW]) == OLD


def test_of_the_same_second_the_first_name_counts() -> None:
    twin = live_dnsconfig("a", creationTimestamp="2026-01-01T00:00:00Z")
    assert elected([OLD, twin]) == elected([twin, OLD]) == twin


def test_a_dnsconfig_that_goes_does_not_count() -> None:
    assert elected([deleting(OLD), NEW]) == NEW
    assert elected([deleting(OLD)]) is None
    assert elected([]) is None


def test_the_labels_carry_the_childrens_own_namespace() -> None:
    assert nameserver_labels("ts-dns", "tailscale") == {
        "tailscale.com/managed": "true",
        "tailscale.com/parent-resource": "ts-dns",
        "tailscale.com/parent-resource-ns": "tailscale",
        "tailscale.com/parent-resource-type": "nameserver",
        "app.kubernetes.io/name": "tailscale",
        "app.kubernetes.io/component": "nameserver",
    }


class Image(NamedTuple):
    default: str
    asked: Object
    image: str


@pytest.mark.parametrize(
    "case",
    [
        Image("tailscale/k8s-nameserver:stable", {}, "tailscale/k8s-nameserver:stable"),
        Image("tailscale/k8s-nameserver:stable", {"tag": "v1"}, "tailscale/k8s-nameserver:v1"),
        Image("tailscale/k8s-nameserver:stable", {"repo": "example.org/ns"}, "example.org/ns:stable"),
        Image("tailscale/k8s-nameserver:stable", {"repo": "example.org/ns", "tag": "v1"}, "example.org/ns:v1"),
        Image("tailscale/k8s-nameserver:stable", {"repo": "", "tag": ""}, "tailscale/k8s-nameserver:stable"),
        Image("example.org:5000/ns", {"tag": "v1"}, "example.org:5000/ns:v1"),
        Image("example.org:5000/ns", {"repo": "other"}, "other:latest"),
        Image("example.org/ns@sha256:abc", {}, "example.org/ns@sha256:abc"),
        Image("example.org/ns@sha256:abc", {"tag": "v1"}, "example.org/ns:v1"),
        Image("example.org/ns:v2@sha256:abc", {"repo": "other"}, "other:v2"),
    ],
)
def test_repository_and_tag_fall_back_each_on_its_own(case: Image) -> None:
    parsed = DNSConfig.parse(live_dnsconfig(nameserver={"image": case.asked}))
    assert isinstance(parsed, DNSConfig)
    assert nameserver_image(parsed, settings(nameserver_image=case.default)) == case.image


@pytest.mark.parametrize(
    "image",
    [
        "tailscale/k8s-nameserver:stable",
        "k8s-nameserver",
        "example.org:5000/mirror/k8s-nameserver@sha256:abc",
        "example.org/k8s-nameserver:v1@sha256:abc",
    ],
)
def test_the_go_operators_image_is_known_by_its_name(image: str) -> None:
    assert is_upstream(image)


@pytest.mark.parametrize("image", ["example.org/tsnameserver:v1", "k8s-nameserver/ours:v1", "my-k8s-nameserver", ""])
def test_every_other_image_is_taken_for_ours(image: str) -> None:
    assert not is_upstream(image)
