"""Which annotations and labels of users have no effect, and what they are told."""

from typing import NamedTuple

import pytest
from tsoperator.api.objects import Object
from tsoperator.desired.annotations import Vocabulary, ignored, nearest
from tsoperator.desired.plan import Note

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
    """What is told of an object with these annotations and labels."""
    return ignored(egress_service(annotations, labels=labels or {}), VOCABULARY)


class Case(NamedTuple):
    key: str
    value: str
    words: str
    """Of the message; empty if nothing is told."""


@pytest.mark.parametrize(
    "case",
    [
        Case("expose", "true", ""),
        Case("expose", "false", ""),
        Case("expose", "yes", 'annotation tailscale.com/expose is "yes", which turns nothing on: write "true"'),
        Case("expose", "True", 'annotation tailscale.com/expose is "True", which turns nothing on'),
        Case("funnel", "", 'annotation tailscale.com/funnel is "", which turns nothing on'),
        Case("expose", "yes\n", r'is "yes\n", which'),
        Case("expose", "x" * 40, f'is "{"x" * 40}", which'),
        Case("expose", "x" * 41, f'is "{"x" * 40}…", which'),
        Case("cluster-dns", "true", ""),
        Case("cluster-dns", "false", ""),
        Case(
            "cluster-dns", "no", 'annotation tailscale.com/cluster-dns is "no", which turns nothing off: write "false"'
        ),
        Case("hostname", "yes", ""),
        Case("desired-digest", "2e2016550b66f79f", ""),
        Case("http-redirect", "true", "no effect on this Service: move it to an Ingress"),
        Case("http-redirects", "true", "no effect: if you mean tailscale.com/http-redirect, move it to an Ingress"),
        Case("tailnet-fqdns", "", "check its spelling, or remove it"),
        Case("exposed", "true", "if you mean tailscale.com/expose, write that"),
        Case("Expose", "true", "doesn't know annotation tailscale.com/Expose, which has no effect: if you mean"),
        Case("zzz", "", "doesn't know annotation tailscale.com/zzz, which has no effect: check its spelling"),
    ],
    ids=str,
)
def test_an_annotation_without_effect_is_told_once_with_what_to_write_instead(case: Case) -> None:
    notes = told({f"tailscale.com/{case.key}": case.value})
    assert [(note.type, note.reason, note.once) for note in notes] == [
        ("Warning", "IgnoredAnnotation", True) for _ in notes if case.words
    ]
    assert [case.words in note.message for note in notes] == ([True] if case.words else [])


def test_the_prefix_counts_in_any_spelling_and_other_prefixes_do_not() -> None:
    others = {"example.org/expose": "true", "expose": "yes", "tailscale.example.org/exposed": "true"}
    wrong = {"Tailscale.com/expose": "true", "example.tailscale.org/http-redirect": "true", "tailscale/expose": "true"}
    assert [note.message for note in told(others | wrong)] == [
        "the operator doesn't know annotation Tailscale.com/expose, which has no effect: if you mean "
        "tailscale.com/expose, write that",
        "the operator doesn't know annotation example.tailscale.org/http-redirect, which has no effect: if you mean "
        "tailscale.com/http-redirect, move it to an Ingress",
        "the operator doesn't know annotation tailscale/expose, which has no effect: if you mean "
        "tailscale.com/expose, write that",
    ]


def test_each_annotation_is_told_in_order() -> None:
    messages = [note.message for note in told({"tailscale.com/zzz": "", "tailscale.com/expose": "yes"})]
    assert ["expose" in messages[0], "zzz" in messages[1]] == [True, True]


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
def test_a_label_that_should_be_an_annotation_is_told(
    labels: dict[str, str], annotations: dict[str, str], words: str
) -> None:
    notes = told(annotations, labels)
    assert [(note.type, note.reason, note.once) for note in notes] == [("Warning", "IgnoredLabel", True)] * bool(words)
    assert all(words in note.message for note in notes)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("exposed", "expose"),
        ("EXPOSE", "expose"),
        ("host-name", "hostname"),
        ("tag", "tags"),
        ("name", "hostname"),
        ("tailnet_fqdn", "tailnet-fqdn"),
        ("fqdn", "tailnet-fqdn"),
        ("proxyclass", "proxy-class"),
        ("class", "proxy-class"),
        ("load-balancer", ""),
    ],
)
def test_the_nearest_known_name_is_found(name: str, meant: str) -> None:
    wanted = f"tailscale.com/{meant}" if meant else ""
    assert nearest(f"tailscale.com/{name}", KNOWN) == wanted
    assert nearest(f"Tailscale.COM/{name}", KNOWN) == wanted


def test_objects_without_annotations_are_fine() -> None:
    plain: Object = egress_service({})
    del plain["metadata"]["annotations"]
    assert ignored(plain, VOCABULARY) == []
