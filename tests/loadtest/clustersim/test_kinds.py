"""The kinds that are served, and their paths."""

import pytest
from clustersim.kinds import Kinds, Target
from clustersim.objects import DNSCONFIG, NAMESPACE, RESOURCES, SERVICE


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
        ("/api/v1/services/a", None),
        ("/apis/apps/v1", None),
    ],
)
def test_a_path_names_a_target(path: str, target: Target | None) -> None:
    assert Kinds(RESOURCES).locate(path) == target
