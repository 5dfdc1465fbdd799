"""Our stub domains in the configuration of kube-dns."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.dns.cluster.results import StubDomain
from tsoperator.dns.cluster.stubdomains import Edited, with_zones, without_zones
from tsoperator.runtime.plan import Refusal

from tests.operator.dns.cluster.objects import OWNER

STUB = StubDomain(("ts.net",), ("10.96.0.53",))
OURS = '"ts.net": ["10.96.0.53"]'
EARLIER = '{"zones": {"ts.net": ["10.96.0.53"]}, "made": false}'
MADE = f'{{"tailscale": {EARLIER.replace("false", "true")}}}'
ADDED = f'{{"tailscale": {EARLIER}}}'


CHANGES: dict[str, tuple[str | None, str]] = {
    "no key": (None, f"{{{OURS}}}"),
    "empty": ("{}", f"{{{OURS}}}"),
    "empty, with spaces": (" { }\n", f" {{{OURS} }}\n"),
    "before others": ('{ "a": ["1"], "b":[] }', f'{{ {OURS}, "a": ["1"], "b":[] }}'),
    "lines": ('\r\n{\r\n\t"a" :["1"]\r\n}\r\n', f'\r\n{{\r\n\t{OURS}, "a" :["1"]\r\n}}\r\n'),
    "odd entries": ('{"a":null,"a":["ts.net"],"":["}"]}', f'{{{OURS}, "a":null,"a":["ts.net"],"":["}}"]}}'),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_our_stub_domain_is_added_to_those_of_kube_dns_and_removed(before: str | None, after: str) -> None:
    added = with_zones(before, None, "here", STUB, OWNER)
    assert added == Edited(after, MADE if before is None else ADDED)
    assert with_zones(*added, "here", STUB, OWNER) == added
    assert without_zones(*added, "here", OWNER) == Edited(before, None)


def test_the_stub_domains_of_an_earlier_version_are_replaced() -> None:
    assert with_zones(f"{{{OURS}}}", EARLIER, "here", STUB, OWNER) == Edited(f"{{{OURS}}}", ADDED)


def test_two_operators_have_stub_domains_side_by_side() -> None:
    other, theirs = StubDomain(("lab.example.org",), ("10.96.0.54",)), '"lab.example.org": ["10.96.0.54"]'
    first = with_zones(None, None, "here", STUB, OWNER)
    assert isinstance(first, Edited)
    both = with_zones(*first, "here", other, "lab")
    assert isinstance(both, Edited)
    assert both.text == f"{{{theirs}, {OURS}}}"
    assert with_zones(*both, "here", other, "lab") == both
    assert without_zones(*both, "here", "lab") == first
    left = without_zones(*both, "here", OWNER)
    assert isinstance(left, Edited)
    assert (left.text, without_zones(*left, "here", OWNER)) == (f"{{{theirs}}}", left)
    assert isinstance(with_zones(*left, "here", replace(STUB, zones=other.zones), OWNER), Refusal)


def test_a_changed_stub_domain_replaces_our_old_stub_domain() -> None:
    stub = StubDomain(("a.ts.net", "b.ts.net"), ("10.96.0.54", "fd00::54"))
    entries = '"a.ts.net": ["10.96.0.54", "fd00::54"], "b.ts.net": ["10.96.0.54", "fd00::54"]'
    replaced = with_zones(f'{{{OURS}, "a":["1"]}}', ADDED, "here", stub, OWNER)
    assert isinstance(replaced, Edited)
    assert replaced.text == f'{{{entries}, "a":["1"]}}'
    assert without_zones(*replaced, "here", OWNER) == Edited('{"a":["1"]}', None)


SEEN = {
    "the key is gone": (None, ADDED, None),
    "our entry is gone": ('{"a":["1"]}', ADDED, '{"a":["1"]}'),
    "all is gone from the key that we made": ("{}", MADE, None),
    "others came into the key that we made": (f'{{{OURS}, "a":["1"]}}', MADE, '{"a":["1"]}'),
    "last": (f'{{"a":["1"] , {OURS} }}', ADDED, '{"a":["1"] }'),
    "in the middle": (f'{{"a":["1"],\n {OURS},\n "b":[]}}', ADDED, '{"a":["1"],\n "b":[]}'),
    "twice": (f'{{{OURS},"b":[],{OURS}}}', ADDED, '{"b":[]}'),
    "laid out anew": ('{\n "ts.net" : [\n  "10.96.0.53"\n ]\n}', ADDED, "{\n \n}"),
    "of an earlier version": (f'{{{OURS}, "a":["1"]}}', EARLIER, '{"a":["1"]}'),
    "edited": ('{"ts.net":["10.0.0.1"]}', ADDED, '{"ts.net":["10.0.0.1"]}'),
    "no annotation": (f"{{{OURS}}}", None, f"{{{OURS}}}"),
    "no annotation, no JSON": ("{{", None, "{{"),
}


@pytest.mark.parametrize(("text", "annotation", "left"), SEEN.values(), ids=SEEN)
def test_the_removal_of_our_stub_domain_leaves_the_stub_domains_of_others(
    text: str | None, annotation: str | None, left: str | None
) -> None:
    assert without_zones(text, annotation, "here", OWNER) == Edited(left, None)


ODD = ["", "{", "[]", "{}", '{"zones": []}', '{"zones": {"ts.net": 1}, "made": true}', "[" * 99999]


@pytest.mark.parametrize("annotation", [*ODD, '{"zones": {"ts.net": ["10.96.0.53"]}}'])
def test_without_a_readable_annotation_a_stub_domain_belongs_to_somebody_else(annotation: str) -> None:
    assert without_zones(f"{{{OURS}}}", annotation, "here", OWNER) == Edited(f"{{{OURS}}}", None)


@pytest.mark.parametrize("zone", ["ts.net", "TS.net", "ts.net."])
def test_a_stub_domain_of_somebody_else_stays(zone: str) -> None:
    message = (
        f"here has an entry for {zone}, and it isn't the operator's: remove that entry, or set "
        "spec.clusterDNS.mode to Manual"
    )
    assert with_zones(f'{{"a":[],"{zone}":["1"]}}', None, "here", STUB, OWNER) == Refusal(message, "ZoneTaken")


UNREADABLE = {
    "": "{ is missing at character 1",
    "[]": "{ is missing at character 1",
    '{"a":1': ", is missing at character 7",
    '{"a" 1}': ": is missing at character 6",
    '{"a":1,}': "Expecting value: line 1 column 8 (char 7)",
    "{1:2}": "a name in quotes is missing at character 2",
    "{} {}": "there is more behind its end, at character 4",
    '{"a":}': "Expecting value: line 1 column 6 (char 5)",
}


@pytest.mark.parametrize(("text", "problem"), UNREADABLE.items())
def test_stub_domains_of_kube_dns_that_are_no_json_object_stay_unchanged(text: str, problem: str) -> None:
    message = f"here isn't a JSON object, so it stays as it is: {problem}; correct it"
    for annotation in (None, ADDED):
        assert with_zones(text, annotation, "here", STUB, OWNER) == Refusal(message, "StubDomainsUnreadable")
    assert without_zones(text, ADDED, "here", OWNER) == Refusal(message, "StubDomainsUnreadable")


@pytest.mark.parametrize("value", ["1", "NaN", '"1"', "{}", "[null]", "[1]", '["1", []]'])
def test_stub_domains_that_kube_dns_refuses_are_errors(value: str) -> None:
    message = "here: the value of 'b' isn't a list of addresses, so kube-dns takes no entry; correct it"
    text = f'{{"a": [], "b": {value}}}'
    assert with_zones(text, None, "here", STUB, OWNER) == Refusal(message, "StubDomainsUnreadable")
    assert without_zones(f'{{{OURS}, "b": {value}}}', ADDED, "here", OWNER) == Edited(f'{{"b": {value}}}', None)


def test_deeply_nested_json_in_place_of_stub_domains_is_an_error_like_other_invalid_json() -> None:
    refusal = with_zones('{"a":' + "[" * 99999, None, "here", STUB, OWNER)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "StubDomainsUnreadable"


ENTRIES = st.dictionaries(st.text(max_size=4), st.lists(st.text(max_size=4), max_size=2), max_size=4)
LAYOUT = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])


@given(st.none() | st.builds(lambda entries, layout: json.dumps(entries, **layout), ENTRIES, LAYOUT))
def test_adding_and_removing_the_stub_domain_restores_the_json(text: str | None) -> None:
    first = with_zones(text, None, "here", STUB, OWNER)
    assert isinstance(first, Edited)
    assert json.loads(first.text or "") == {"ts.net": ["10.96.0.53"], **json.loads(text or "{}")}
    second = with_zones(*first, "here", StubDomain(("a.ts.net", "b.ts.net"), ("10.0.0.1",)), OWNER)
    assert isinstance(second, Edited)
    assert without_zones(*first, "here", OWNER) == without_zones(*second, "here", OWNER) == Edited(text, None)
