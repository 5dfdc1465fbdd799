"""Findings about kinds that aren't served, and about webhooks that stop the operator's writes."""

from typing import Any

import pytest
from tsoperator.api.objects import OWN_KINDS, RECORDER, Key, Object
from tsoperator.check.cluster.kinds import Webhooks, check_kinds, check_webhooks, has_ready_endpoint, webhook_services

from tests.docs.pages import ROOT
from tests.operator.check.cluster.samples import manifests, wrong


def test_a_check_looks_for_the_kinds_of_the_chart() -> None:
    definitions = {obj["metadata"]["name"] for obj in manifests() if obj["kind"] == "CustomResourceDefinition"}
    assert {str(kind) for kind in OWN_KINDS} == definitions


def test_the_finding_for_a_missing_kind_names_the_file_of_its_crd() -> None:
    (found,) = wrong([*check_kinds([kind for kind in OWN_KINDS if kind != RECORDER])])
    file = "charts/tailscale-operator/files/crds/tailscale.com_recorders.yaml"
    assert "the cluster has no Recorder: CustomResourceDefinition recorders.tailscale.com is missing" in found
    assert file in found
    assert (ROOT / file).exists()
    assert [each.words for each in check_kinds(OWN_KINDS)] == [
        f"the cluster serves all {len(OWN_KINDS)} kinds of tailscale.com"
    ]


SERVICE = Key("policies", "gate")
LABELS = {"kubernetes.io/metadata.name": "tailscale", "team": "net"}


def rule(resources: str, groups: str = "", operations: str = "CREATE") -> Object:
    return {"apiGroups": [groups], "resources": resources.split(), "operations": operations.split()}


def webhook(*rules: Object, **fields: Any) -> Object:
    client = {"service": {"namespace": SERVICE.namespace, "name": SERVICE.name}}
    return {"name": "gate.example.org", "clientConfig": client, "rules": rules or [rule("pods")], **fields}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


CASES = {
    "Pods": (webhook(rule("pods")), True),
    "other things": (webhook(rule("namespaces nodes")), False),
    "everything": (webhook(rule("*", "*")), True),
    "a group of ours": (webhook(rule("connectors", "tailscale.com")), True),
    "another group": (webhook(rule("*", "example.org")), False),
    "a subresource": (webhook(rule("services/status")), True),
    "each subresource": (webhook(rule("*/status", "networking.k8s.io")), True),
    "a resource with all": (webhook(rule("services/*")), True),
    "all with all": (webhook(rule("*/*", "apps")), True),
    "a subresource of others": (webhook(rule("pods/exec")), False),
    "connections": (webhook(rule("*/*", "*", "CONNECT")), False),
    "connections and more": (webhook(rule("*", "*", "CONNECT UPDATE")), True),
    "no rules": ({**webhook(), "rules": None}, False),
    "one that may fail": (webhook(failurePolicy="Ignore"), False),
    "one that may not": (webhook(failurePolicy="Fail"), True),
    "a URL": (webhook(clientConfig={"url": "https://gate.example.org"}), False),
    "this namespace": (webhook(namespaceSelector={"matchLabels": {"team": "net"}}), True),
    "another namespace": (webhook(namespaceSelector={"matchLabels": {"team": "web"}}), False),
    "objects of ours": (webhook(objectSelector={"matchLabels": {"tailscale.com/managed": "true"}}), True),
    "other objects": (webhook(objectSelector=expression("app", "Exists")), False),
    "all but some objects": (webhook(objectSelector=expression("app", "DoesNotExist")), True),
    "in": (webhook(namespaceSelector=expression("team", "In", "web", "net")), True),
    "not in": (webhook(namespaceSelector=expression("team", "NotIn", "web", "net")), False),
    "not in others": (webhook(namespaceSelector=expression("team", "NotIn", "web")), True),
    "exists": (webhook(namespaceSelector=expression("team", "Exists")), True),
    "exists not": (webhook(namespaceSelector=expression("none", "Exists")), False),
    "does not exist": (webhook(namespaceSelector=expression("team", "DoesNotExist")), False),
}


def configuration(hook: Object) -> Object:
    return {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "gate"}, "webhooks": [hook]}


@pytest.mark.parametrize(("hook", "stops"), CASES.values(), ids=CASES)
def test_a_webhook_without_a_pod_stops_the_writes_about_which_the_api_server_asks_the_webhook(
    hook: Object, stops: bool
) -> None:
    found = wrong([*check_webhooks(Webhooks([configuration(hook)], LABELS, []))])
    assert bool(found) is stops
    (well,) = check_webhooks(Webhooks([configuration(hook)], LABELS, [SERVICE]))
    assert (well.verdict.value, well.words.startswith("no webhook stops what the operator writes")) == ("ok", True)


def test_the_finding_for_a_webhook_without_a_pod_names_the_resources_that_it_stops() -> None:
    hook = webhook(rule("services services/status"), rule("statefulsets", "apps"))
    (found,) = wrong([*check_webhooks(Webhooks([configuration(hook)], {}, []))])
    about = "gate.example.org (ValidatingWebhookConfiguration gate) about services, services/status, statefulsets"
    cure = "`kubectl delete validatingwebhookconfiguration gate`"
    assert all(words in found for words in (about, "Service policies/gate has no ready Pod", cure))


def test_a_webhook_with_a_url_is_counted_in_the_finding_but_has_no_service() -> None:
    remote = webhook(clientConfig={"url": "https://gate.example.org"})
    found = [configuration(webhook()), configuration(remote), {**configuration(remote), "webhooks": None}]
    assert webhook_services(found) == {SERVICE}
    (none,), (well,) = (check_webhooks(Webhooks(each, {}, [SERVICE])) for each in ([], found))
    assert none.words == "no webhook stops what the operator writes"
    assert well.words == f"{none.words}; the API server asks 2 about it"


def test_the_service_of_a_webhook_needs_one_endpoint_that_is_ready() -> None:
    down, up = {"conditions": {"ready": False}}, {"conditions": {"ready": True}}
    ready: list[list[Object]] = [[{"endpoints": [{"conditions": {}}]}], [{}, {"endpoints": [down, up]}]]
    others: list[list[Object]] = [[], [{"endpoints": None}], [{"endpoints": [down]}]]
    assert [slices for slices in (*ready, *others) if has_ready_endpoint(slices)] == ready
