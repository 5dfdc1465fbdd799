"""The tables in docs/ list every condition, reason, annotation, label and variable of the sources, and no others."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import tsnameserver.settings
import tsoperator
import tsoperator.settings
from tsoperator.check.cluster.events import OF_EVENTS_ALONE

from tests.docs.pages import codes, rows, sections

PACKAGE = Path(tsoperator.__file__).parent
CAPITALS = re.compile(r"[A-Z]+[a-z]+([A-Z]+[a-z]*)+|INVALIDSERVICE")
NAMED_AS_CONDITIONS = {
    "KubeAPIServerProxyConfigured",
    "KubeAPIServerProxyValid",
    "PeerRelayReady",
    "ProxyGroupAvailable",
    "ProxyGroupReady",
}
"""Reasons that have the same name as their condition."""
OTHERS = """
    AlreadyExists ClusterFirst ClusterFirstWithHostNet ClusterIP ConfigMap ContainersReady CustomResourceDefinition
    DaemonSet EndpointSlice ExternalIP ExternalName IfNotPresent IngressClass LoadBalancer NoExecute NoSchedule NodePort
    PartialObjectMetadata PreferDualStack PreferNoSchedule ReadinessGatesNotReady RoleBinding RollingUpdate
    RuntimeDefault ServiceAccount ServiceMonitor StatefulSet ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding

    CoreDNS CoreDNSCustom KubeDNS OpenShift

    IsAppConnector IsExitNode NameserverIP PeerRelay ProxyClass ProxyGroup ProxyGroupPolicy SubnetRoutes

    OperatorDevice ServiceView TailscaleService TailscaleServiceIP

    AdvertiseRoutes AdvertiseServices AllowFunnel AppConnector AuthKey BackendState CapMap ControlURL LoginName
    NoStatefulFiltering NodeID PodName ProxyProtocol RelayServerPort RelayServerStaticEndpoints ServerURL SessionType
    StableID StaticEndpoints TailscaleIPs TerminateTLS UserProfile

    APIServerProxy AcceptRoutes HealthCheckEnabled IssueCerts LocalPort LogLevel MetricsEnabled ServiceName
"""
"""CamelCase words in the sources that are no reasons but belong to Kubernetes, our CRDs, tailscaled or the proxies."""


@cache
def nodes() -> tuple[ast.AST, ...]:
    """Return the syntax nodes of the operator's sources but kube/ and check/, which have reasons of other programs."""
    paths = (path for path in PACKAGE.rglob("*.py") if not {PACKAGE / "kube", PACKAGE / "check"} & {*path.parents})
    return tuple(node for path in paths for node in ast.walk(ast.parse(path.read_text())))


def words() -> set[str]:
    """Return the CamelCase words among the strings in the sources."""
    constants = (node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return set(filter(CAPITALS.fullmatch, constants)) - {*OTHERS.split()}


def conditions() -> set[str]:
    """Return the types of conditions: the values of the constants whose names begin with ``CONDITION_``."""
    return {
        str(node.value.value)
        for node in nodes()
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant)
        if ast.unparse(node.target).startswith("CONDITION_")
    }


def test_every_reason_of_a_condition_has_a_row_in_the_docs_and_every_row_is_a_reason() -> None:
    shown = {reason for body in sections("conditions.md").values() for reason in rows(body)}
    assert shown == words() - conditions() | NAMED_AS_CONDITIONS


def test_every_condition_has_a_heading_in_the_docs_and_every_heading_in_code_font_is_a_condition() -> None:
    assert {type_ for heading in sections("conditions.md") for type_ in codes(heading)} == conditions()


def test_the_warnings_that_check_reports_beside_conditions_have_the_reasons_that_the_docs_list_for_events_alone() -> (
    None
):
    events = sections("conditions.md")["Events"]
    assert {*rows(events)} == OF_EVENTS_ALONE
    (warnings,) = re.findall(
        r"also writes these reasons of conditions as Warning Events: (.*?), and all of", events, re.S
    )
    assert not {*codes(warnings)} & OF_EVENTS_ALONE


ANNOTATION = re.compile(r"tailscale\.com/[a-z-]+")
NO_ANNOTATIONS = re.compile(r".*(finalizer|protection|reconciler)|tailscale\.com/(ts-ingress|egress-services|cap)")
"""A pattern for names that look like annotations, but belong to finalizers, a controller, a gate or capabilities."""


def test_the_documentation_has_a_row_for_every_annotation_and_label_and_no_other_rows() -> None:
    constants = (node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str))
    used = {name for name in filter(ANNOTATION.fullmatch, constants) if not NO_ANNOTATIONS.fullmatch(name)}
    shown = {name for body in sections("annotations.md").values() for name in rows(body)}
    assert {name for name in shown if ANNOTATION.fullmatch(name)} == used


VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z]+)+|KUBECONFIG")


def test_each_environment_variable_of_the_operator_has_a_row_in_the_docs_and_no_row_is_about_anything_else() -> None:
    nodes = ast.walk(ast.parse(Path(tsoperator.settings.__file__).read_text()))
    constants = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    read = {text for text in constants if VARIABLE.fullmatch(text)}
    assert len(read) > 15
    assert {*rows(sections("settings.md")["The operator"])} == read


def test_each_environment_variable_of_the_nameserver_has_a_row_in_the_docs_and_no_row_is_about_anything_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        tsnameserver.settings.read_settings(["--help"], {})
    flags = {*re.findall(r"^ +(--[a-z-]+)", capsys.readouterr().out, flags=re.MULTILINE)} - {"--help", "--version"}
    variables = {f"TSNAMESERVER_{flag.removeprefix('--').replace('-', '_').upper()}" for flag in flags}
    assert len(variables) > 10
    assert {*rows(sections("settings.md")["The nameserver"])} == variables | flags
