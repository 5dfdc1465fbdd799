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
NAMED_AS_CONDITIONS = {"ProxyGroupAvailable", "ProxyGroupReady"}
"""Reasons that have the name of their condition."""
OTHERS = """
    AlreadyExists ClusterFirst ClusterFirstWithHostNet ClusterIP ConfigMap CustomResourceDefinition EndpointSlice
    ExternalIP ExternalName IfNotPresent IngressClass LoadBalancer NodePort PartialObjectMetadata PreferDualStack
    RoleBinding RollingUpdate RuntimeDefault ServiceAccount ServiceMonitor StatefulSet

    CoreDNS CoreDNSCustom KubeDNS OpenShift

    IsAppConnector IsExitNode NameserverIP PeerRelay ProxyClass ProxyGroup ProxyGroupPolicy SubnetRoutes

    AdvertiseRoutes AllowFunnel AppConnector AuthKey NoStatefulFiltering NodeID ServerURL StaticEndpoints
    TerminateTLS
"""
"""Words in the source that are no reasons: of Kubernetes, of our CRDs, of tailscaled's configuration."""


@cache
def nodes() -> tuple[ast.AST, ...]:
    """Return the syntax tree of the source, without what knows the API server's own reasons and only reads objects."""
    paths = (path for path in PACKAGE.rglob("*.py") if not {PACKAGE / "kube", PACKAGE / "cli"} & {*path.parents})
    return tuple(node for path in paths for node in ast.walk(ast.parse(path.read_text())))


def words() -> set[str]:
    """Return the words with capitals inside that stand in the source."""
    constants = (node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return set(filter(CAPITALS.fullmatch, constants)) - {*OTHERS.split()}


def conditions() -> set[str]:
    """Return the types of conditions, each of which is a constant of that name."""
    return {
        str(node.value.value)
        for node in nodes()
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant)
        if ast.unparse(node.target).startswith("CONDITION_")
    }


def test_every_reason_has_a_row_and_every_row_is_a_reason() -> None:
    shown = {reason for body in sections(PAGE).values() for reason in rows(body)}
    assert shown == words() - conditions() | NAMED_AS_CONDITIONS


def test_every_condition_has_a_heading_and_every_such_heading_is_a_condition() -> None:
    assert {type_ for heading in sections(PAGE) for type_ in codes(heading)} == conditions()
