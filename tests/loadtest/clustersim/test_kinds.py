"""The kinds that are served, and their paths."""

import pytest
from clustersim.kinds import Kinds, Target
from clustersim.objects import BUILTIN_RESOURCES, DNSCONFIG, NAMESPACE, RESOURCES, SERVICE


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/services", Target(SERVICE)),
        ("/api/v1/namespaces/a/services", Target(SERVICE, "a")),
        ("/api/v1/namespaces/a/services/b/status", Target(SERVICE, "a", "b", "status")),
        ("/api/v1/namespaces", Target(NAMESPACE)),
        ("/api/v1/namespaces/a", Target(NAMESPACE, "", "a")),
        ("/api/v1/namespaces/a/status", Target(NAMESPACE, "", "a", "status")),
        ("/apis/tailscale.com/v1alpha1/dnsconfigs/a", Target(DNSCONFIG, "", "a")),
        ("/apis/tailscale.com/v1alpha1/namespaces/a/dnsconfigs", None),
        ("/apis/tailscale.com/v1/dnsconfigs", None),
        ("/api/v1/services/a", None),
        ("/apis/apps/v1", None),
        ("/healthz", None),
    ],
)
def test_a_path_names_a_target(path: str, target: Target | None) -> None:
    assert Kinds(RESOURCES).locate(path) == target


def test_a_kind_can_come_and_go() -> None:
    kinds = Kinds(BUILTIN_RESOURCES)
    assert kinds.locate("/apis/tailscale.com/v1alpha1/dnsconfigs") is None
    kinds.serve(DNSCONFIG)
    assert kinds.locate("/apis/tailscale.com/v1alpha1/dnsconfigs") == Target(DNSCONFIG)
    kinds.withdraw(DNSCONFIG)
    assert kinds.locate("/apis/tailscale.com/v1alpha1/dnsconfigs") is None
