"""The Events about parts of an Ingress that have no effect."""

import pytest
from tsoperator.proxy.annotations import ignored
from tsoperator.reconcilers.ingress.ask import parse
from tsoperator.reconcilers.ingress.notices import VOCABULARY, class_notes, ignored_notes

from tests.support.objects import live_ingress, settings

MOVE = "move it to a Service, which can lead to a device of the tailnet"


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("hostname", "write the hostname in spec.tls[0].hosts[0] instead"),
        ("expose", "remove it, because the class alone exposes the Ingress"),
        ("http-endpoint", "set tailscale.com/http-redirect to true, so that plain HTTP is redirected to HTTPS"),
        ("tailnet-fqdn", f"Ingress: {MOVE}"),
        ("tailnet-ip", f"Ingress: {MOVE}"),
        ("http-redirects", "if you mean tailscale.com/http-redirect, write that"),
        ("ts-tailnet-target-ip", f"if you mean tailscale.com/tailnet-ip, {MOVE}"),
        ("funel", "if you mean tailscale.com/funnel, write that"),
        ("tailnet", "name a ProxyGroup in tailscale.com/proxy-group whose spec.tailnet is that Tailnet"),
    ],
)
def test_an_event_names_an_annotation_without_effect_on_an_ingress_and_says_what_to_do_instead(
    name: str, cure: str
) -> None:
    (note,) = ignored(live_ingress({f"tailscale.com/{name}": "true"}), VOCABULARY)
    assert (note.type, note.reason, note.once) == ("Warning", "IgnoredAnnotation", True)
    assert f"annotation tailscale.com/{name}" in note.message
    assert note.message.endswith(cure)


@pytest.mark.parametrize(
    "name", ["cluster-dns", "experimental-forward-cluster-traffic-via-ingress", "funnel", "http-redirect", "tags"]
)
def test_a_label_with_the_name_of_an_ingress_annotation_causes_an_event_but_the_annotation_does_not(name: str) -> None:
    given = {f"tailscale.com/{name}": "true"}
    assert ignored(live_ingress(given), VOCABULARY) == []
    assert [note.reason for note in ignored(live_ingress(labels=given), VOCABULARY)] == ["IgnoredLabel"]


def test_an_ingress_can_name_its_proxyclass_in_a_label_but_a_proxygroup_in_a_label_causes_an_event() -> None:
    given = {"tailscale.com/proxy-class": "prod", "tailscale.com/proxy-group": "egress"}
    assert ignored(live_ingress(given), VOCABULARY) == []
    (note,) = ignored(live_ingress(labels=given), VOCABULARY)
    assert (note.reason, "tailscale.com/proxy-group" in note.message) == ("IgnoredLabel", True)


@pytest.mark.parametrize(
    ("given", "cure"),
    [
        ({"funnel": "true"}, "a proxy of its own has Funnel"),
        ({"proxy-class": "prod"}, "write it in spec.proxyClass of the ProxyGroup instead"),
        ({"cluster-dns": "false"}, "the cluster's DNS never has the name of such an Ingress"),
        ({"experimental-forward-cluster-traffic-via-ingress": "true"}, "an egress Service leads Pods to the Ingress"),
        ({"hostname": "shop"}, "write the hostname in spec.tls[0].hosts[0] instead"),
        ({"http-redirect": "yes"}, 'write "true", or remove it'),
        ({"http-endpoint": "true"}, 'write "enabled", or remove it'),
        ({"http-endpoint": "enabled", "http-redirect": "true"}, "without a redirect: remove one of the two"),
        ({"http-endpoint": "enabled", "http-redirect": "false", "tags": "tag:a"}, ""),
        ({"http-redirect": "true"}, ""),
    ],
)
def test_an_event_names_an_annotation_that_has_no_effect_on_an_ingress_of_a_group(
    given: dict[str, str], cure: str
) -> None:
    grouped = {"proxy-group": "ing", **given}
    ask = parse(live_ingress({f"tailscale.com/{name}": value for name, value in grouped.items()}), settings())
    notes = ignored_notes(ask)
    assert [(note.reason, note.once) for note in notes] == [("IgnoredAnnotation", True)] * bool(cure)
    assert not cure or notes[0].message.endswith(cure)


def told(name: str | None, old: str = "", *, exists: bool = False, ours: str = "tailscale") -> str:
    """Return the message of the Event about the class of an Ingress, or an empty string if there is no Event.

    The spec of the Ingress names the class *name*, and its annotation names *old*. *exists* tells whether there is an
    IngressClass of this *name*. *ours* is the name of our IngressClass.
    """
    found = live_ingress({"kubernetes.io/ingress.class": old} if old else {}, spec={"ingressClassName": name})
    notes = class_notes(parse(found, settings()), ours, class_exists=exists)
    assert {(note.type, note.reason, note.once) for note in notes} <= {("Warning", "IgnoredIngressClass", True)}
    return "".join(note.message for note in notes)


def test_one_event_names_an_ingress_class_that_looks_like_a_misspelling_of_ours() -> None:
    assert "there is no IngressClass tailscal, so nobody serves the Ingress: if this operator is to, w" in told(
        "tailscal"
    )
    assert "write tailscale in spec.ingressClassName" in told("tailscale-internal")
    assert "has no effect on this operator" in told(None, "tailscale")
    assert "write tailscale in spec.ingressClassName instead" in told("", "tailscale")
    assert "Ingress: if it is to, write tailscale in spec.ingressClassName instead" in told(None, "tailscal")
    assert "write private in spec.ingressClassName" in told("privat", ours="private")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"tailscale.com/funnel": "true", "tailscale.com/tags": "tag:a"}, "tailscale.com/funnel"),
        ({"tailscale.com/proxy-group": "web"}, "tailscale.com/proxy-group"),
        ({"tailscale.com/cluster-dns": "false"}, ""),
        ({"tailscale.com/funnel": "true", "kubernetes.io/ingress.class": "nginx"}, ""),
        ({"tailscale.com/hostname": "web"}, ""),
    ],
)
def test_an_event_says_that_an_ingress_with_our_annotations_names_no_class(given: dict[str, str], named: str) -> None:
    found = live_ingress(given, spec={"ingressClassName": None})
    notes = class_notes(parse(found, settings()), "tailscale", class_exists=False)
    assert [(note.type, note.reason, note.once) for note in notes] == [("Warning", "IgnoredIngressClass", True)] * bool(
        named
    )
    assert all(f"it has annotation {named}: write tailscale in spec.ingressClassName" in note.message for note in notes)


def test_no_event_names_an_ingress_class_of_another_controller_or_a_class_that_exists() -> None:
    others = [told("nginx"), told(None), told(None, "nginx"), told("nginx", "tailscale")]
    assert [*others, told("tailscal", exists=True), told("tailscal", ours="private")] == [""] * 6
