"""Annotations and labels of users that have no effect, and the Events about them."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.proxy.annotations import Vocabulary, ignored, nearest
from tsoperator.runtime.plan import Note

from tests.support.objects import egress_service

NAMES = ("cluster-dns", "expose", "funnel", "hostname", "proxy-class", "tags", "tailnet-fqdn")
KNOWN = [f"tailscale.com/{name}" for name in NAMES]
VOCABULARY = Vocabulary(
    "Service",
    KNOWN,
    switches=["tailscale.com/expose", "tailscale.com/funnel"],
    opt_outs=["tailscale.com/cluster-dns"],
    elsewhere={"tailscale.com/http-redirect": "move it to an Ingress"},
    deprecated=["tailscale.com/tailnet-fqdn"],
)


def told(annotations: dict[str, str], labels: dict[str, str] | None = None) -> list[Note]:
    return ignored(egress_service(annotations, labels=labels or {}), VOCABULARY)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("expose", "true", ""),
        ("expose", "false", ""),
        ("expose", "yes", 'annotation tailscale.com/expose is "yes", which turns nothing on: write "true"'),
        ("expose", "True", 'annotation tailscale.com/expose is "True", which turns nothing on'),
        ("funnel", "", 'annotation tailscale.com/funnel is "", which turns nothing on'),
        ("expose", "yes\n", r'is "yes\n", which'),
        ("expose", "x" * 40, f'is "{"x" * 40}", which'),
        ("expose", "x" * 41, f'is "{"x" * 40}…", which'),
        ("cluster-dns", "true", ""),
        ("cluster-dns", "false", ""),
        ("cluster-dns", "no", 'tailscale.com/cluster-dns is "no", which turns nothing off: write "false"'),
        ("hostname", "yes", ""),
        ("desired-digest", "2e2016550b66f79f", ""),
        ("http-redirect", "true", "no effect on this Service: move it to an Ingress"),
        ("http-redirects", "true", "no effect: if you mean tailscale.com/http-redirect, move it to an Ingress"),
        ("tailnet-fqdns", "", "check its spelling, or remove it"),
        ("exposed", "true", "if you mean tailscale.com/expose, write that"),
        ("Expose", "true", "doesn't know annotation tailscale.com/Expose, which has no effect: if you mean"),
        ("zzz", "", "doesn't know annotation tailscale.com/zzz, which has no effect: check its spelling"),
    ],
    ids=str,
)
def test_one_event_names_an_annotation_that_has_no_effect_and_says_what_to_write(
    name: str, value: str, words: str
) -> None:
    notes = told({f"tailscale.com/{name}": value})
    kinds = [(note.type, note.reason, note.once) for note in notes]
    assert kinds == [("Warning", "IgnoredAnnotation", True)] * bool(words)
    assert all(words in note.message for note in notes)


def test_an_event_corrects_a_misspelled_prefix_of_an_annotation_but_not_a_foreign_prefix() -> None:
    others = {"example.org/expose": "true", "expose": "yes", "tailscale.example.org/exposed": "true"}
    wrong = {"tailscale/expose": "true", "example.tailscale.org/http-redirect": "true", "Tailscale.com/expose": "true"}
    doubt, instead = "which has no effect: if you mean", "tailscale.com/expose, write that"
    assert [note.message for note in told(others | wrong)] == [
        f"the operator doesn't know annotation Tailscale.com/expose, {doubt} {instead}",
        f"the operator doesn't know annotation example.tailscale.org/http-redirect, {doubt} "
        "tailscale.com/http-redirect, move it to an Ingress",
        f"the operator doesn't know annotation tailscale/expose, {doubt} {instead}",
    ]


@pytest.mark.parametrize(
    ("labels", "annotations", "words"),
    [
        ({"tailscale.com/expose": "true"}, {}, "label tailscale.com/expose has no effect, because it must be an ann"),
        ({"tailscale.com/expose": "true"}, {"tailscale.com/expose": "true"}, ""),
        ({"tailscale.com/proxy-class": "prod"}, {}, ""),
        ({"tailscale.com/proxyclass": "prod"}, {}, "label tailscale.com/proxyclass, which has no effect: if you mean"),
        ({"Tailscale.com/expose": "true"}, {}, "if you mean tailscale.com/expose, write that as an annotation"),
        ({"tailscale.com/http-redirect": "x"}, {}, "redirect has no effect on this Service: move it to an Ingress"),
        ({"tailscale.com/other": "x", "exposed": "x", "example.org/expose": "x"}, {}, ""),
        ({"tailscale.com/expose": "true", "tailscale.com/managed": "true"}, {}, ""),
    ],
)
def test_an_event_names_a_label_that_should_be_an_annotation(
    labels: dict[str, str], annotations: dict[str, str], words: str
) -> None:
    notes = told(annotations, labels)
    assert [(note.type, note.reason, note.once) for note in notes] == [("Warning", "IgnoredLabel", True)] * bool(words)
    assert all(words in note.message for note in notes)


NEAREST = {
    "host-name": "hostname",
    "tag": "tags",
    "name": "hostname",
    "tailnet_fqdn": "tailnet-fqdn",
    "fqdn": "tailnet-fqdn",
    "proxyclass": "proxy-class",
    "class": "proxy-class",
}


@pytest.mark.parametrize("prefix", ["tailscale.com", "Tailscale.COM"])
def test_the_most_similar_known_annotation_is_suggested_for_an_unknown_annotation(prefix: str) -> None:
    assert {name: nearest(f"{prefix}/{name}", KNOWN).removeprefix("tailscale.com/") for name in NEAREST} == NEAREST
    assert nearest(f"{prefix}/load-balancer", KNOWN) == ""


def test_objects_without_annotations_cause_no_event() -> None:
    plain: Object = egress_service({})
    del plain["metadata"]["annotations"]
    assert ignored(plain, VOCABULARY) == []
