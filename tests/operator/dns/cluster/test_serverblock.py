"""Our server block: its text, how it is added to a Corefile, and how it is removed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsoperator.dns.cluster.corefile import parse
from tsoperator.dns.cluster.results import StubDomain
from tsoperator.dns.cluster.serverblock import (
    BEGIN,
    END,
    EVERYWHERE,
    Listening,
    corefile_refusal,
    listening,
    marked_block,
    server_block,
    with_block,
    without_block,
)
from tsoperator.runtime.plan import Refusal

from tests.operator.dns.cluster.corefiles import corefiles, texts
from tests.operator.dns.cluster.objects import OWNER

STUB = StubDomain(("tail1234.ts.net",), ("10.96.0.53",))
ROOT = ".:53 {\n    forward . /etc/resolv.conf\n}\n"
OURS = f"{marked_block(STUB, EVERYWHERE, OWNER)}\n"


def test_the_operators_server_block_has_everything_that_coredns_needs() -> None:
    stub = StubDomain(("a.ts.net", "b.ts.net"), ("10.96.0.53", "fd00::53"))
    assert server_block(stub, Listening(("53", "5353", ""), ("lo", "10.0.0.1"))).splitlines() == [
        "a.ts.net:53 a.ts.net:5353 a.ts.net b.ts.net:53 b.ts.net:5353 b.ts.net {",
        "    bind lo 10.0.0.1",
        "    errors",
        "    cache 30 {",
        "        denial 9984 1",  # for this number of seconds, CoreDNS may deny a new name; the default is 5 seconds
        "    }",
        "    forward . 10.96.0.53 fd00::53",
        "}",
    ]


LISTENING = {
    "": EVERYWHERE,
    ROOT: EVERYWHERE,
    "example.org:5353 {\n bind lo\n}\n": EVERYWHERE,
    "tls://. {\n}\n": EVERYWHERE,
    ". {\n bind lo\n}\n": Listening(("",), ("lo",)),
    ".:53 .:54 tls://.:853 {\n bind lo 10.0.0.1\n}\n.:55 a:56 {\n bind 10.0.0.1\n bind lo\n}\n": Listening(
        ("53", "54", "55"), ("lo", "10.0.0.1")
    ),
    ".:53 .:54 {\n bind lo 10.0.0.1\n}\n.:55 a:56 {\n bind lo\n bind eth0\n}\n": Listening(
        ("53", "54"), ("lo", "10.0.0.1")
    ),
    f"{ROOT}.:5353 {{\n bind 127.0.0.1\n}}\n": EVERYWHERE,
    f".:5353 {{\n bind 127.0.0.1\n}}\n{ROOT}": EVERYWHERE,
    ".:8053 {\n}\n.:5353 {\n bind 127.0.0.1\n}\n": Listening(("8053",)),
    ". {\n bind 10.0.0.1\n}\n. {\n bind fd00::1\n}\n": Listening(("",), ("10.0.0.1", "fd00::1")),
}


@pytest.mark.parametrize(("text", "expected"), LISTENING.items())
def test_our_server_block_listens_at_the_addresses_of_the_server_block_for_all_names(
    text: str, expected: Listening
) -> None:
    assert listening(parse(text)) == expected


CHANGES = {
    "empty": ("", OURS),
    "at the end": (ROOT, ROOT + OURS),
    "no final newline": (ROOT[:-1], f"{ROOT}{OURS[:-1]}"),
    "only a comment": ("# x", f"# x\n{OURS[:-1]}"),
    "CRLF": (ROOT.replace("\n", "\r\n"), (ROOT + OURS).replace("\n", "\r\n")),
    "one CRLF": ("\r\n\n", "\r\n\n" + OURS.replace("\n", "\r\n")),
    "a carriage return at the end": ("\r", f"\r\n{OURS[:-1]}"),
    "a marker in a word": (f'. {{\n log "{BEGIN}"\n}}\n', f'. {{\n log "{BEGIN}"\n}}\n{OURS}'),
    "a marker in a comment": (f"# {BEGIN}\n", f"# {BEGIN}\n{OURS}"),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_the_operators_lines_are_added_to_a_corefile_and_removed(before: str, after: str) -> None:
    assert with_block(before, "here", STUB, EVERYWHERE, OWNER) == after
    assert without_block(after, "here", OWNER) == before


REPLACED = {
    "same": OURS,
    "other zone": OURS.replace("tail1234", "tail5678"),
    "other address": OURS.replace("10.96.0.53", "fd00::53"),
    "edited": OURS.replace("errors", "errors\n    log # who asks?"),
    "an earlier form": f"{BEGIN}\nts.net {{\n}}\n{END}\n",
    "of a version that wrote no namespace": f"{BEGIN}\n{server_block(STUB)}\n{END}\n",
}


@pytest.mark.parametrize("lines", REPLACED.values(), ids=REPLACED)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_changed_lines_of_the_operator_in_a_corefile_are_replaced_by_the_right_lines(lines: str, newline: str) -> None:
    text = (lines + ROOT).replace("\n", newline)
    assert with_block(text, "here", STUB, EVERYWHERE, OWNER) == (OURS + ROOT).replace("\n", newline)
    assert without_block(text, "here", OWNER) == ROOT.replace("\n", newline)


@pytest.mark.parametrize(("text", "left"), [(OURS[:-1], ""), ("\r\n" + OURS, "\r\n")])
def test_the_operators_lines_in_a_corefile_have_the_newlines_of_the_file(text: str, left: str) -> None:
    assert with_block(text, "here", STUB, EVERYWHERE, OWNER) == text
    assert without_block(text, "here", OWNER) == left


DAMAGED = {
    "no end": OURS.replace(END, ""),
    "no beginning": OURS.replace(BEGIN, ""),
    "another beginning": OURS.replace(BEGIN, f"{BEGIN} "),
    "a word behind the end": OURS.replace(END, f"{END}s"),
    "twice": OURS + OURS,
    "twice, once without the namespace": OURS + f"{BEGIN}\n{server_block(STUB)}\n{END}\n",
    "the wrong way round": f"{END}\n{BEGIN}\n",
    "indented": f" {OURS}",
    "an indented end": OURS.replace(END, f" {END}"),
    "nothing between": f"{BEGIN}\n{END}\n",
    "two blocks between": OURS.replace(END, f"a {{\n}}\n{END}"),
    "in a block": f". {{\n{OURS}}}\n",
    "half in a block": f"{BEGIN}\n. {{\n{END}\n}}\n",
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_damaged_lines_of_the_operator_in_a_corefile_stay_unchanged(text: str) -> None:
    refusal = with_block(text, "here", STUB, EVERYWHERE, OWNER)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "BlockDamaged"
    assert without_block(text, "here", OWNER) == refusal
    assert corefile_refusal(text, "here", STUB, EVERYWHERE, OWNER) == refusal


def test_the_refusal_of_a_corefile_has_the_position_of_our_damaged_lines() -> None:
    message = (
        "somebody has changed the lines that the operator wrote into ConfigMap a, key b, at line 4: remove them all, "
        f"from {BEGIN!r} to {END!r}, and the operator writes them anew"
    )
    assert without_block(f"{ROOT}{BEGIN}\n", "ConfigMap a, key b", OWNER) == Refusal(message, "BlockDamaged")


def test_an_invalid_corefile_stays_unchanged() -> None:
    text = f"{OURS}example.org {{\n"
    message = "line 11: the server block that begins here has no closing brace; add }"
    refusal = Refusal(f"here can't be read, so it stays as it is: {message}", "CorefileUnreadable")
    assert with_block(text, "here", STUB, EVERYWHERE, OWNER) == refusal
    assert without_block(text, "here", OWNER) == refusal
    assert corefile_refusal(text, "here", STUB, EVERYWHERE, OWNER) == refusal


def test_a_corefile_without_our_lines_need_not_be_valid() -> None:
    assert without_block("{{{", "here", OWNER) == "{{{"


PLUGINS = {
    "forward tail1234.ts.net 1.2.3.4": "tail1234.ts.net",
    "forward Tail1234.ts.net.:53 1.2.3.4": "tail1234.ts.net",
    "forward db.tail1234.ts.net 1.2.3.4": "db.tail1234.ts.net",
    "grpc tail1234.ts.net 1.2.3.4": "tail1234.ts.net",
    "template IN A example.org tail1234.ts.net": "tail1234.ts.net",
    "file /zones/x tail1234.ts.net": "tail1234.ts.net",
    **{f"{name} tail1234.ts.net": "tail1234.ts.net" for name in ("auto", "etcd", "hosts", "kubernetes", "secondary")},
    **dict.fromkeys(["forward ts.net 1.2.3.4", "forward . 1.2.3.4", "forward . tail1234.ts.net"], ""),
    **dict.fromkeys(["template IN A", "log tail1234.ts.net", "cache 30 tail1234.ts.net"], ""),
}


@pytest.mark.parametrize(("plugin", "taken"), PLUGINS.items())
def test_the_operator_refuses_to_add_a_zone_that_a_plugin_in_another_server_block_can_serve(
    plugin: str, taken: str
) -> None:
    above, ours = f". {{\n errors\n {plugin}\n}}\n", StubDomain(("a.ts.net", "tail1234.ts.net"), ("10.0.0.1",))
    name = plugin.partition(" ")[0]
    refusal = Refusal(
        f"line 3 of here, has plugin {name} for {taken}, which a server block of the operator would end: remove it, or "
        "set spec.clusterDNS.mode to Manual",
        "ZoneTaken",
    )
    assert corefile_refusal(above, "here", ours, EVERYWHERE, OWNER) == (refusal if taken else None)
    assert corefile_refusal(above.replace(".", "net", 1), "here", ours, EVERYWHERE, OWNER) == (
        refusal if taken else None
    )
    for elsewhere in ("tls://.", "example.org", "x.tail1234.ts.net"):
        assert corefile_refusal(above.replace(".", elsewhere, 1), "here", ours, EVERYWHERE, OWNER) is None


TAKEN = {
    "the zone": ("Tail1234.ts.net. {\n}\n", True, EVERYWHERE),
    "among others": ("a b tail1234.ts.net:53 {\n}\n", True, EVERYWHERE),
    "at our port": ("tail1234.ts.net:5353 {\n}\n", True, Listening(("53", "5353"))),
    "at a port in a variable": ("tail1234.ts.net:{$P} {\n}\n", True, EVERYWHERE),
    "our port is a variable": ("tail1234.ts.net:5353 {\n}\n", True, Listening(("{$P}",))),
    "by a snippet": ("(s) {\n tail1234.ts.net {\n }\n}\nimport s\n", True, EVERYWHERE),
    "after ours": (OURS + "tail1234.ts.net {\n}\n", True, EVERYWHERE),
    "before ours": ("tail1234.ts.net {\n}\n" + OURS, True, EVERYWHERE),
    "no port is ours": ("tail1234.ts.net:53 {\n}\n", True, Listening(("",))),
    "at another port": ("tail1234.ts.net:5353 {\n}\n", False, EVERYWHERE),
    "by TLS": ("tls://tail1234.ts.net {\n}\n", False, EVERYWHERE),
    "a zone above": ("ts.net {\n}\n", False, EVERYWHERE),
    "a zone below": ("db.tail1234.ts.net {\n}\n", False, EVERYWHERE),
    "ours": (ROOT + OURS, False, EVERYWHERE),
}


@pytest.mark.parametrize(("text", "expected", "at"), TAKEN.values(), ids=TAKEN)
def test_the_operator_refuses_to_add_its_server_block_if_a_foreign_one_for_the_zone_can_listen_at_its_port(
    text: str, expected: bool, at: Listening
) -> None:
    refusal = corefile_refusal(text, "here", StubDomain(("x.ts.net", *STUB.zones), ("10.0.0.1",)), at, OWNER)
    assert (refusal is not None) is expected


def test_the_message_about_an_unchanged_corefile_names_the_line_and_the_zone() -> None:
    message = (
        "line 5 of ConfigMap a, key b, begins a server block that answers for tail1234.ts.net, or may because of a "
        "variable, and it isn't the operator's: remove it, or set spec.clusterDNS.mode to Manual"
    )
    text = f"{ROOT}\ntail1234.ts.net {{\n}}\n"
    assert corefile_refusal(text, "ConfigMap a, key b", STUB, EVERYWHERE, OWNER) == Refusal(message, "ZoneTaken")


LAB = StubDomain(("lab.example.org",), ("10.96.0.54",))
"""The stub domain of the operator in namespace lab."""


@pytest.mark.parametrize("root", [ROOT, ROOT[:-1], ""])
def test_two_operators_have_server_blocks_side_by_side_in_a_corefile(root: str) -> None:
    first = with_block(root, "here", STUB, EVERYWHERE, OWNER)
    assert isinstance(first, str)
    assert corefile_refusal(first, "here", LAB, EVERYWHERE, "lab") is None
    assert without_block(first, "here", "lab") == first
    both = with_block(first, "here", LAB, EVERYWHERE, "lab")
    assert isinstance(both, str)
    assert both.startswith(first)
    for stub, owner in ((STUB, OWNER), (LAB, "lab")):
        assert with_block(both, "here", stub, EVERYWHERE, owner) == both
    assert str(without_block(both, "here", "lab")).rstrip() == first.rstrip()
    assert without_block(both, "here", OWNER) == with_block(root, "here", LAB, EVERYWHERE, "lab")


def test_a_server_block_of_another_operator_for_our_zone_stays() -> None:
    text = f"{ROOT}{marked_block(STUB, EVERYWHERE, 'lab')}\n"
    message = (
        "line 6 of here, begins a server block that answers for tail1234.ts.net, or may because of a variable, and it "
        "is that of the operator in namespace lab: remove it if that operator is gone, or set spec.clusterDNS.mode to "
        "Manual"
    )
    assert corefile_refusal(text, "here", STUB, EVERYWHERE, OWNER) == Refusal(message, "ZoneTaken")
    assert without_block(text, "here", OWNER) == text


STUBS = st.builds(
    StubDomain,
    st.sampled_from([("ts.net",), ("a.ts.net", "b.ts.net")]),
    st.sampled_from([("10.0.0.1",), ("fd00::1", "10.0.0.2")]),
)


@given(corefiles(), STUBS, STUBS)
def test_adding_and_removing_our_server_block_restores_the_corefile(
    text: str, stub: StubDomain, other: StubDomain
) -> None:
    at = listening(parse(text))
    first = with_block(text, "here", stub, at, OWNER)
    assert isinstance(first, str)
    assert with_block(first, "here", stub, at, OWNER) == first
    second = with_block(first, "here", other, at, OWNER)
    assert isinstance(second, str)
    assert second == with_block(text, "here", other, at, OWNER)
    assert (without_block(first, "here", OWNER), without_block(second, "here", OWNER)) == (text, text)
    assert [*parse(second).blocks[:-1]] == [*parse(text).blocks]
    assert parse(second).blocks[-1].directives[-1].args == [".", *other.addresses]


@given(texts())
def test_the_removal_of_our_lines_restores_every_corefile_to_which_lines_can_be_added(text: str) -> None:
    edited = with_block(text, "here", STUB, EVERYWHERE, OWNER)
    before = without_block(text, "here", OWNER)
    if isinstance(edited, Refusal):
        assert before in (edited, text)
    else:
        assert without_block(edited, "here", OWNER) == before
