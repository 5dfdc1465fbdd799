"""docs/conditions.md has every condition and every reason that the operator can give, and no others."""

import ast
import re
from functools import cache
from pathlib import Path

import tsoperator

from tests.docs.pages import codes, rows, sections

PAGE = "conditions.md"
PACKAGE = Path(tsoperator.__file__).parent
CAPITALS = re.compile(r"[A-Z]+[a-z]+([A-Z]+[a-z]*)+|INVALIDSERVICE")
CONDITION = re.compile(r"\w+(Ready|Complete)")
OTHERS = {
    *re.findall(
        r"\w+",
        """
    AlreadyExists ClusterFirst ClusterFirstWithHostNet ClusterIP ConfigMap CustomResourceDefinition EndpointSlice
    ExternalName IfNotPresent IngressClass LoadBalancer NodePort PreferDualStack RoleBinding RollingUpdate
    RuntimeDefault ServiceAccount ServiceMonitor StatefulSet

    IsAppConnector IsExitNode NameserverIP PeerRelay ProxyClass ProxyGroup ProxyGroupPolicy SubnetRoutes

    AdvertiseRoutes AllowFunnel AppConnector AuthKey NoStatefulFiltering NodeID ServerURL TerminateTLS
        """,
    )
}
"""Words in the source that are no reasons: of Kubernetes, of our CRDs, of tailscaled's configuration."""


@cache
def words() -> frozenset[str]:
    """Return the words with capitals inside that stand in the source; the API server's own reasons are left out."""
    paths = (path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE / "kube")
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    constants = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return frozenset(filter(CAPITALS.fullmatch, constants)) - OTHERS


def test_every_reason_has_a_row_and_every_row_is_a_reason() -> None:
    given = {word for word in words() if not CONDITION.fullmatch(word) or word == "CertificateReady"}
    assert {reason for body in sections(PAGE).values() for reason in rows(body)} == given


def test_every_condition_has_a_heading_and_every_such_heading_is_a_condition() -> None:
    given = {word for word in words() if CONDITION.fullmatch(word) and word != "CertificateReady"}
    assert {type_ for heading in sections(PAGE) for type_ in codes(heading)} == given
