"""The claims of Ingresses, Services and ProxyGroups on labels of a tailnet."""

from typing import NamedTuple

import pytest
from tsoperator.api.names import HA_INGRESS_FINALIZER, HA_SERVICE_FINALIZER, KUBE_APISERVER_FINALIZER
from tsoperator.api.objects import INGRESS, PROXYGROUP, SERVICE, Key, Object
from tsoperator.group.claims import LabelClaim, by_label, claim_of, winner

from tests.support.objects import deleting, obj, settings

SETTINGS = settings(proxy_tags=("tag:k8s",))
GROUP = {"tailscale.com/proxy-group": "ing"}


def web(*hosts: str, name: str = "web", class_: str = "tailscale", held: bool = True, **annotations: str) -> Object:
    spec = {"ingressClassName": class_, **({"tls": [{"hosts": [*hosts]}]} if hosts else {})}
    metadata = {"annotations": _given(annotations), "finalizers": [HA_INGRESS_FINALIZER] if held else []}
    return obj(INGRESS, Key("default", name), {"spec": spec}, creationTimestamp="2026-01-01T00:00:00Z", **metadata)


def api(held: bool = True, spec: Object | None = None, **annotations: str) -> Object:
    spec = spec or {"type": "LoadBalancer", "loadBalancerClass": "tailscale", "clusterIP": "10.0.0.9"}
    metadata = {"annotations": _given(annotations), "finalizers": [HA_SERVICE_FINALIZER] if held else []}
    return obj(SERVICE, Key("default", "api"), {"spec": spec}, creationTimestamp="2026-01-01T00:00:00Z", **metadata)


def _given(annotations: dict[str, str]) -> dict[str, str]:
    return GROUP | {f"tailscale.com/{name.replace('_', '-')}": value for name, value in annotations.items()}


def claim(of: Object) -> LabelClaim:
    found = claim_of(of, SETTINGS)
    assert found is not None
    return found


CLUSTER_IP = {"type": "ClusterIP", "clusterIP": "10.0.0.9"}


@pytest.mark.parametrize(
    ("given", "asks"),
    [
        (web("web"), True),
        (web("web", class_="nginx"), False),
        (web("web", proxy_group=""), False),
        (api(), True),
        (api(proxy_group=""), False),
        (api(spec=CLUSTER_IP), False),
        (api(spec=CLUSTER_IP, expose="true"), True),
        (api(spec={"type": "LoadBalancer", "clusterIP": "10.0.0.9"}), False),
        (api(spec={"type": "LoadBalancer", "loadBalancerClass": "tailscale"}), False),
        (api(spec={"type": "ClusterIP", "clusterIP": "None"}, expose="true"), False),
        (api(spec={"type": "ExternalName", "externalName": "db.example.org"}, expose="true"), False),
    ],
)
def test_an_object_claims_a_label_if_a_group_should_expose_it(given: Object, *, asks: bool) -> None:
    assert (claim_of(given, SETTINGS) is not None) is asks


@pytest.mark.parametrize(
    ("given", "counts", "may_be_kept"),
    [
        (web("web"), True, False),
        (web("web", held=False), False, False),
        (deleting(web("web")), False, False),
        (web("we_b"), False, True),
        (web("we_b", held=False), False, False),
        (deleting(web("we_b")), False, False),
    ],
)
def test_a_valid_object_with_our_finalizer_has_a_claim_that_counts_and_an_invalid_one_can_keep_its_label(
    given: Object, *, counts: bool, may_be_kept: bool
) -> None:
    assert (claim(given).counts, claim(given).may_be_kept) == (counts, may_be_kept)


class Ask(NamedTuple):
    given: Object
    label: str
    ports: tuple[str, ...] = ("tcp:443",)
    tags: tuple[str, ...] = ("tag:k8s",)


BOTH = ("tcp:443", "tcp:80")
ANY = ("do-not-validate",)
ASKS = [
    Ask(web("web"), "web"),
    Ask(web("Web.tail1234.ts.net"), "web"),
    Ask(web(), "default-web-ingress"),
    Ask(web("web", http_redirect="true"), "web", BOTH),
    Ask(web("web", http_redirect="yes"), "web"),
    Ask(web("web", http_endpoint="enabled"), "web", BOTH),
    Ask(web("web", http_endpoint="true"), "web"),
    Ask(web("web", tags="tag:a, tag:b"), "web", tags=("tag:a", "tag:b")),
    Ask(api(), "default-api", ANY),
    Ask(api(hostname="API"), "api", ANY),
    Ask(api(tags="tag:a"), "default-api", ANY, ("tag:a",)),
]


@pytest.mark.parametrize("ask", ASKS)
def test_a_claim_has_the_label_the_ports_and_the_tags_of_the_wanted_tailscale_service(ask: Ask) -> None:
    found = claim(ask.given)
    assert (found.label, found.name, found.ports, found.tags) == (ask.label, f"svc:{ask.label}", ask.ports, ask.tags)
    assert (found.wrong, found.counts, [*by_label(ask.given)]) == ([], True, [ask.label])


@pytest.mark.parametrize("held", [True, False])
def test_an_object_that_no_group_should_expose_is_found_by_its_label_while_it_has_the_finalizer(held: bool) -> None:
    egress = {"type": "ExternalName", "externalName": "db.example.org"}
    nameless = ((web("web", held=held), "web"), (api(held=held), "default-api"))
    left = [({**given, "metadata": {**given["metadata"], "annotations": {}}}, label) for given, label in nameless]
    for given, label in (*left, (api(held=held, spec=egress, tailnet_ip="100.64.10.10"), "default-api")):
        assert [*by_label(given)] == [label] * held


def test_an_ingress_that_asks_for_plain_http_and_for_a_redirect_gets_plain_http() -> None:
    found = claim(web("web", http_endpoint="enabled", http_redirect="true"))
    assert (found.serves_http, found.redirects) == (True, False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (web("web", "other"), "more than one host"),
        (web("*.example.org"), "not a valid DNS label"),
        (web("web", tags="tag:1"), "tags"),
        (api(hostname="a_b"), "annotation tailscale.com/hostname"),
        (api(tags="prod"), "tags"),
    ],
)
def test_a_claim_of_an_invalid_object_says_what_is_wrong_and_does_not_count(given: Object, words: str) -> None:
    found = claim(given)
    assert len(found.wrong) == 1
    assert words in found.wrong[0]
    assert not found.counts


def test_an_ingress_with_two_entries_for_tls_is_invalid() -> None:
    twice = web("web")
    twice["spec"]["tls"].append({"hosts": ["other"]})
    assert not claim(twice).counts


def test_the_oldest_claim_that_counts_wins_the_label() -> None:
    old, new = claim(web("web")), claim(web("web", name="new"))
    new.obj["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    unheld, gone = claim(web("web", held=False)), claim(deleting(web("web")))
    assert winner([new, old]) is old
    assert winner([]) is None
    assert [each.counts for each in (new, old, unheld, gone, claim(web("a", "b")))] == [True, True, False, False, False]


def test_of_two_claims_of_equal_age_the_same_one_always_wins() -> None:
    one, other = claim(web("web", name="a")), claim(web("web", name="b"))
    assert winner([one, other]) is winner([other, one]) is one


def group(spec: Object | None = None, **metadata: object) -> Object:
    content = {"spec": {"type": "kube-apiserver", **(spec or {})}}
    return obj(PROXYGROUP, Key("", "kapi"), content, **{"finalizers": [KUBE_APISERVER_FINALIZER], **metadata})


@pytest.mark.parametrize(
    ("given", "label", "tags", "account"),
    [
        ({}, "kapi", ("tag:k8s",), "kube-apiserver-auth-proxy"),
        ({"kubeAPIServer": {"hostname": "k8s", "mode": "auth"}}, "k8s", ("tag:k8s",), "kube-apiserver-auth-proxy"),
        ({"kubeAPIServer": {"mode": "noauth"}, "tags": ["tag:a"]}, "kapi", ("tag:a",), "kapi"),
    ],
)
def test_a_group_that_offers_the_kubernetes_api_claims_its_hostname(
    given: Object, label: str, tags: tuple[str, ...], account: str
) -> None:
    found = claim(group(given))
    assert (found.label, found.ports, found.tags, found.account) == (label, ("tcp:443",), tags, account)
    assert (found.counts, found.is_web, found.sole_owner) == (True, True, ("ProxyGroup", "kapi", "kapi-uid"))
    assert [*by_label(found.obj)] == [label]


@pytest.mark.parametrize(
    ("given", "asks", "counts"),
    [
        (group({"type": "ingress"}, finalizers=[]), False, False),
        (group(finalizers=[]), True, False),
        (group({"replicas": "x"}), True, False),
        (group({"kubeAPIServer": {"hostname": "-"}}), True, False),
        (deleting(group()), True, False),
    ],
)
def test_the_claim_of_a_group_counts_if_the_group_is_valid_and_has_our_finalizer(
    given: Object, asks: bool, counts: bool
) -> None:
    found = claim_of(given, SETTINGS)
    assert (found is not None, found is not None and found.counts) == (asks, counts)
    assert any(by_label(given)) is asks
