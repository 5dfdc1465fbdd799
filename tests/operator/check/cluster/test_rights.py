"""The rights that the operator needs are those that the chart gives it."""

from itertools import product

import pytest
import yaml
from tsoperator.api.objects import Object
from tsoperator.check.cluster.rights import AccessQuestion, check_rights, questions

from tests.docs.pages import ROOT
from tests.operator.check.cluster.samples import installed, manifests, wrong


def granted(namespace: str, role: Object) -> set[AccessQuestion]:
    """Return the rights that a role of the chart grants in a namespace."""
    return {
        AccessQuestion(namespace, group, resource, verb, named)
        for rule in role["rules"]
        for group, resource, verb, named in product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames") or [""]
        )
    }


def test_the_rights_that_a_check_asks_about_are_those_of_the_charts_roles() -> None:
    everywhere, own, _proxies = (role for role in manifests() if role["kind"] in ("ClusterRole", "Role"))
    assert set(questions(installed())) == granted("", everywhere) | granted("tailscale", own)


def test_the_rights_for_managing_the_clusters_dns_and_making_a_dnsconfig_are_those_of_the_charts_roles() -> None:
    asks = {"OPERATOR_MANAGE_CLUSTER_DNS": "true", "OPERATOR_DNS_ENABLED": "true"}
    more = {*questions(installed(asks))} - {*questions(installed())}
    manifests = yaml.load_all((ROOT / "charts" / "manifests" / "cluster-dns.yaml").read_text(), yaml.CSafeLoader)
    everywhere, there = (role for role in manifests if role["kind"] in ("Role", "ClusterRole"))
    assert more == granted("kube-system", there) | granted("", everywhere)


@pytest.mark.parametrize(("manages", "verbs"), [("false", "list watch"), ("true", "list watch get patch")])
def test_a_configmap_of_the_clusters_dns_that_the_user_names_needs_additional_rights(manages: str, verbs: str) -> None:
    given = {"OPERATOR_MANAGE_CLUSTER_DNS": manages}
    more = {*questions(installed({**given, "OPERATOR_CLUSTER_DNS_CONFIGMAP": "dns-base"}))} - {
        *questions(installed(given))
    }
    places = {"list": "", "watch": "", "get": "kube-system", "patch": "kube-system"}
    assert more == {AccessQuestion(places[verb], "", "configmaps", verb, "dns-base") for verb in verbs.split()}


def test_a_check_asks_for_rights_in_each_watched_namespace() -> None:
    asked = questions(installed({"OPERATOR_WATCH_NAMESPACES": "team-a"}))
    services = {each.namespace for each in asked if (each.resource, each.verb) == ("services", "patch")}
    events = {each.namespace for each in asked if (each.resource, each.verb) == ("events", "create")}
    assert (services, events) == ({"tailscale", "team-a"}, {"tailscale", "team-a", "default"})


def test_an_access_review_names_the_user_and_the_right_in_question() -> None:
    question = AccessQuestion("", "tailscale.com", "connectors/status", "update")
    attributes = {"group": "tailscale.com", "resource": "connectors", "subresource": "status", "verb": "update"}
    assert question.review("system:serviceaccount:a:b")["spec"] == {
        "user": "system:serviceaccount:a:b",
        "resourceAttributes": attributes,
    }
    named = AccessQuestion("tailscale", "", "serviceaccounts/token", "create", "operator").review("u")
    assert {"name": "operator", "namespace": "tailscale"}.items() <= named["spec"]["resourceAttributes"].items()


def lacking(*resources: str) -> list[AccessQuestion]:
    return [AccessQuestion("tailscale", "", resource, verb) for resource in resources for verb in ("get", "list")]


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (lacking("secrets"), ["the operator may not get, list secrets in namespace tailscale"]),
        (
            [AccessQuestion("kube-system", "", "configmaps", "get", named) for named in ("coredns", "kube-dns")],
            ["the operator may not get configmaps in namespace kube-system"],
        ),
        (
            [AccessQuestion("", "tailscale.com", "connectors", "watch"), *lacking("pods")],
            ["the operator may not watch connectors.tailscale.com", "the operator may not get, list pods in namespace"],
        ),
        (lacking(*"abcde"), [f"the operator may not get, list {name}" for name in "abcde"]),
        (lacking(*"abcdef"), ["the operator lacks 12 rights in the cluster, among them to get, list a; get, list b"]),
    ],
)
def test_a_check_lists_missing_rights_by_resource(missing: list[AccessQuestion], words: list[str]) -> None:
    assert [each.words for each in check_rights([])] == ["the operator has all rights that it needs in the cluster"]
    found = wrong([*check_rights(missing)])
    assert all(each.startswith(begun) and "helm upgrade" in each for each, begun in zip(found, words, strict=True))
