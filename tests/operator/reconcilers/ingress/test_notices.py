"""What an Ingress says that it has without effect."""

from typing import NamedTuple

import pytest
from tsoperator.desired.annotations import ignored
from tsoperator.reconcilers.ingress.notices import VOCABULARY, class_notes

from tests.support.objects import live_ingress, settings

OLD_CLASS = "kubernetes.io/ingress.class"


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("hostname", "write the hostname in spec.tls[0].hosts[0] instead"),
        ("expose", "remove it, because the class alone exposes the Ingress"),
        (
            "http-endpoint",
            "remove it, or set tailscale.com/http-redirect to true, so that plain HTTP is redirected to HTTPS",
        ),
        ("tailnet-fqdn", "Ingress: move it to a Service, which can lead to a device of the tailnet"),
        ("tailnet-ip", "Ingress: move it to a Service, which can lead to a device of the tailnet"),
        ("http-redirects", "if you mean tailscale.com/http-redirect, write that"),
        (
            "ts-tailnet-target-ip",
            "if you mean tailscale.com/tailnet-ip, move it to a Service, which can lead to a device of the tailnet",
        ),
        ("funel", "if you mean tailscale.com/funnel, write that"),
    ],
)
def test_an_annotation_for_something_else_is_told(name: str, cure: str) -> None:
    (note,) = ignored(live_ingress({f"tailscale.com/{name}": "true"}), VOCABULARY)
    assert (note.type, note.reason, note.once) == ("Warning", "IgnoredAnnotation", True)
    assert f"annotation tailscale.com/{name}" in note.message
    assert note.message.endswith(cure)


@pytest.mark.parametrize(
    "name",
    [
        "cluster-dns",
        "experimental-forward-cluster-traffic-via-ingress",
        "funnel",
        "http-redirect",
        "tags",
        "proxy-class",
        "proxy-group",
    ],
)
def test_an_annotation_for_ingresses_is_known_and_as_a_label_told(name: str) -> None:
    assert ignored(live_ingress({f"tailscale.com/{name}": "true"}), VOCABULARY) == []
    told = ignored(live_ingress(labels={f"tailscale.com/{name}": "true"}), VOCABULARY)
    assert [note.reason for note in told] == ["IgnoredLabel"] * (name != "proxy-class")


class Class(NamedTuple):
    name: str | None
    words: str
    old: str = ""
    exists: bool = False
    ours: str = "tailscale"


@pytest.mark.parametrize(
    "case",
    [
        Class("tailscal", "there is no IngressClass tailscal, so nobody serves the Ingress: if this operator is to, "),
        Class("tailscale-internal", "write tailscale in spec.ingressClassName"),
        Class("tailscal", "", exists=True),
        Class("nginx", ""),
        Class(None, ""),
        Class(None, "has no effect on this operator", old="tailscale"),
        Class("", "write tailscale in spec.ingressClassName instead", old="tailscale"),
        Class(None, "", old="nginx"),
        Class("nginx", "", old="tailscale"),
        Class("privat", "write private in spec.ingressClassName", ours="private"),
        Class("tailscal", "", ours="private"),
    ],
)
def test_a_class_that_is_nearly_ours_is_told_once(case: Class) -> None:
    found = live_ingress({OLD_CLASS: case.old} if case.old else {}, spec={"ingressClassName": case.name})
    notes = class_notes(found, settings(ingress_class=case.ours), class_exists=case.exists)
    assert [(note.type, note.reason, note.once) for note in notes] == [("Warning", "IgnoredIngressClass", True)] * bool(
        case.words
    )
    assert all(case.words in note.message for note in notes)
