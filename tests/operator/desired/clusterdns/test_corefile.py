"""The syntax of Corefiles, as CoreDNS reads it."""

import contextlib
from typing import NamedTuple

import pytest
from hypothesis import given
from tsoperator.desired.clusterdns.corefile import Address, CorefileError, Directive, parse, parse_plugins

from tests.operator.desired.clusterdns.corefiles import corefiles, texts

ROOT = Address("")


class Case(NamedTuple):
    text: str
    addresses: list[Address]
    directives: dict[str, list[str]] = {}  # noqa: RUF012 - nobody changes it


CASES = {
    "a block": Case(
        ".:53 {\n    errors\n    forward . 1.1.1.1\n}\n",
        [Address("", "53")],
        {"errors": [], "forward": [".", "1.1.1.1"]},
    ),
    "no final newline": Case(". {\n  errors\n}", [ROOT], {"errors": []}),
    "CRLF": Case(". {\r\n  errors\r\n}\r\n", [ROOT], {"errors": []}),
    "a byte order mark": Case("\ufeff. {\n}\n", [ROOT]),
    "no zone": Case("{\n  errors\n}\n", [], {"errors": []}),
    "several zones": Case("a.b c:5 {\n}\n", [Address("a.b"), Address("c", "5")]),
    "commas": Case("a, b,\nc {\n}\n", [Address("a"), Address("b"), Address("c")]),
    "capital letters and a dot": Case("TS.Net.:53 {\n}\n", [Address("ts.net", "53")]),
    "schemes": Case(
        "tls://. https://a:443 dns://b {\n}\n", [Address("", "", "tls"), Address("a", "443", "https"), Address("b")]
    ),
    "an unknown scheme": Case("tcp://a:1 {\n}\n", [Address("tcp://a", "1")]),
    "variables": Case("{$A}.b:{%P%} {\n}\n", [Address("{$a}.b", "{%P%}")]),
    "a reverse zone": Case("10.0.0.0/8 {\n}\n", [Address("10.0.0.0/8")]),
    "a brace in the next line": Case(".\n{\nerrors\n{\n x\n}\n}\n", [ROOT], {"errors": []}),
    "options": Case(
        ". {\n forward . a b {\n  policy random\n  x {\n  y\n }\n }\n errors\n}\n",
        [ROOT],
        {"forward": [".", "a", "b"], "errors": []},
    ),
    "options in one line": Case(". {\n health { lameduck 5s }\n errors\n}\n", [ROOT], {"health": [], "errors": []}),
    "words behind options": Case(". {\n x {\n } y\n errors\n}\n", [ROOT], {"x": [], "errors": []}),
    "a plugin behind the brace": Case(". { errors\n}\n", [ROOT], {"errors": []}),
    "no space needed": Case('. {\n log "a"b\n}\n', [ROOT], {"log": ["a", "b"]}),
    "quotes": Case('. {\n log "a b" "#"\n errors\n}\n', [ROOT], {"log": ["a b", "#"], "errors": []}),
    "escapes": Case('. {\n log "c \\"d\\" \\e \\\\"\n}\n', [ROOT], {"log": ['c "d" \\e \\\\']}),
    "a quoted newline": Case('. {\n log "a\nb" c\n errors\n}\n', [ROOT], {"log": ["a\nb", "c"], "errors": []}),
    "a quoted zone": Case('"" "a" {\n}\n', [Address("a")]),
    "a quote in a word": Case('. {\n log a"b c"\n}\n', [ROOT], {"log": ['a"b', 'c"']}),
    "comments": Case("# x {\n. { # y {\n errors # z\n}\n# }", [ROOT], {"errors": []}),
    "a comment in a word": Case(". {\n errors#no yes\n}\n", [ROOT], {"errors": ["yes"]}),
    "odd spaces": Case("\u3000.\xa0{\v\f\n\terrors\u2028x\r\n}\x85", [ROOT], {"errors": ["x"]}),
    "a carriage return in a word": Case(". {\n err\rors\n}\n", [ROOT], {"errors": []}),
    "an unknown file": Case(". {\n import a/*.b\n errors\n}\n", [ROOT], {"import": ["a/*.b"], "errors": []}),
    "an import among options": Case(". {\n x {\n  import y\n }\n}\n", [ROOT], {"x": []}),
    "a snippet": Case("(s) {\n errors\n log a\n}\n. {\n import s\n}\n", [ROOT], {"errors": [], "log": ["a"]}),
    "a snippet in a snippet": Case(
        "(s) {\n errors\n}\n(t) {\n import s\n log\n}\n. {\n import t\n}\n", [ROOT], {"errors": [], "log": []}
    ),
    "a snippet of blocks": Case("(s) {\n a {\n  errors\n }\n}\nimport s\n", [Address("a")], {"errors": []}),
    "a snippet with braces": Case("(s) {\n x {\n  y\n }\n}\n. {\n import s\n}\n", [ROOT], {"x": []}),
    "a snippet that comes later": Case(". {\n import s\n}\n(s) {\n errors\n}\n", [ROOT], {"import": ["s"]}),
    "a snippet beside a zone": Case("(s) a {\n}\n", [Address("(s)"), Address("a")]),
    "import as an argument": Case(". {\n log import x\n}\n", [ROOT], {"log": ["import", "x"]}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_server_block_is_read(case: Case) -> None:
    (block,) = parse(case.text).blocks
    assert [*block.addresses] == case.addresses
    assert {each.name: each.args for each in block.directives} == case.directives


def test_blocks_say_where_they_are() -> None:
    text = "# a\nx {\n errors\n} y z {\n\n log\n}\nimport a\n(s) {\n}\nimport b/*\n"
    found = parse(text)
    assert [text[block.start : block.end] for block in found.blocks] == ["x {\n errors\n}", "y z {\n\n log\n}"]
    assert [(block.line, [each.line for each in block.directives]) for block in found.blocks] == [(2, [3]), (4, [6])]
    assert found.imports == ["a", "b/*"]
    assert [(text[each.start : each.end], each.line) for each in found.comments] == [("# a", 1)]


def test_a_plugin_is_found_in_any_block() -> None:
    found = parse("(s) {\n reload 10s\n}\na {\n errors\n}\nb {\n import s\n}\n")
    assert (found.has("reload"), found.has("loop")) == (True, False)


def test_a_file_for_a_block_has_plugins_only() -> None:
    text = "# x\nlog\nforward ts.net 10.0.0.1 {\n force_tcp\n}\n"
    assert parse_plugins(text) == [Directive("log", [], 2), Directive("forward", ["ts.net", "10.0.0.1"], 3)]
    with pytest.raises(CorefileError, match="line 2: there is no plugin before }"):
        parse_plugins("log\n}\n")


ERRORS = {
    "no closing brace": (". {\n errors\n", "line 1: the server block that begins here has no closing brace; add }"),
    "a brace for options only": (
        ". {\n a {\n }\n",
        "line 1: the server block that begins here has no closing brace; add }",
    ),
    "options without an end": (". {\n\n errors {\n", "line 3: the options of errors have no closing brace; add }"),
    "too many braces": (". {\n}\n}\n", "line 3: there is a closing brace too many; remove it"),
    "no braces": ("\n.:53\nerrors\n", "line 2: .:53 begins no server block; put the block's plugins in braces"),
    "no braces at the end": (". {\n}\na", "line 3: a begins no server block; put the block's plugins in braces"),
    "a brace behind a plugin": (". {\n a }\n", "line 2: there is a } behind a; put it in a line of its own"),
    "braces for no plugin": (". {\n {\n }\n}\n", "line 2: there is no plugin before {; remove this brace"),
    "an open quote": ('. {\n log "a\n}\n', 'line 2: a quoted word has no end; add the closing "'),
    "an open quote after others": ('"a\nb" {\n}\n"', 'line 4: a quoted word has no end; add the closing "'),
    "a comma": ("a, {\n}\n", "line 1: a zone is missing after the comma; remove the comma"),
    "an import after a comma": ("a,\nimport b\n", "line 2: a zone is missing after the comma; remove the comma"),
    "no port": ("a b: {\n}\n", "line 1: b: has no port after the colon; add the port, or remove the colon"),
    "an import of nothing": (
        ". {\n import\n errors\n}\n",
        "line 2: import takes the name of one snippet or file; name one",
    ),
    "an import of no name": ('import ""\n', "line 1: import takes the name of one snippet or file; name one"),
    "an import of two": ("import a b\n", "line 1: import takes the name of one snippet or file; name one"),
    "an import of a brace, too": (". { import a }\n", "line 1: import takes the name of one snippet or file; name one"),
    "an option imports two": (
        ". {\n a {\n  import b c\n }\n}\n",
        "line 3: import takes the name of one snippet or file; name one",
    ),
    "a snippet twice": ("(s) {\n}\n(s) {\n}\n", "line 3: snippet s is there twice; remove one"),
    "a snippet without an end": ("(s) {\n a {\n }\n", "line 1: snippet s has no closing brace; add }"),
    "a snippet of itself": (
        "(s) {\n import s\n}\n. {\n import s\n}\n",
        "line 2: snippet s leads to too many imports; import less",
    ),
    "a long word": ("x" * 99, f"line 1: {'x' * 80}... begins no server block; put the block's plugins in braces"),
}


@pytest.mark.parametrize(("text", "message"), ERRORS.values(), ids=ERRORS)
def test_a_file_that_is_wrong_says_where_and_what_to_do(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as raised:
        parse(text)
    assert str(raised.value) == message


def chain(length: int, start: int = 0) -> str:
    """Return snippets of which each imports the one before, and a block that imports the last."""
    snippets = "".join(f"(s{number}) {{\n import s{number - 1}\n}}\n" for number in range(1, length))
    return f"(s0) {{\n log\n}}\n{snippets}. {{\n import s{length - 1}\n}}\n"


def test_snippets_grow_to_a_limit() -> None:
    assert parse(chain(50)).has("log")
    with pytest.raises(CorefileError, match="too many imports"):
        parse(chain(51))
    words = "(s) {\n" + "log\n" * 999 + "}\n. {\n"
    assert parse(words + "import s\n" * 100 + "}\n").has("log")
    with pytest.raises(CorefileError, match="too many imports"):
        parse(words + "import s\n" * 101 + "}\n")


class Query(NamedTuple):
    address: Address
    zone: str
    ports: tuple[str, ...] | None
    expected: bool


@pytest.mark.parametrize(
    "query",
    [
        Query(Address("ts.net", "53"), "ts.net", ("53",), True),
        Query(Address("ts.net"), "ts.net", ("53", "8053"), True),
        Query(Address("ts.net"), "ts.net", ("8053",), False),
        Query(Address("ts.net", "8053"), "ts.net", None, True),
        Query(Address("ts.net", "{$P}"), "ts.net", ("53",), True),
        Query(Address("ts.net", "", "tls"), "ts.net", ("53",), False),
        Query(Address("net"), "ts.net", ("53",), False),
        Query(Address("a.ts.net"), "ts.net", ("53",), False),
        Query(Address(""), "ts.net", ("53",), False),
        Query(Address("{$a}"), "ts.net", ("53",), True),
        Query(Address("{$a}.net"), "ts.net", ("53",), True),
        Query(Address("ts.{%a%}"), "ts.net", ("53",), True),
        Query(Address("{$a}.org"), "ts.net", ("53",), False),
        Query(Address("x{$a}net"), "ts.net", ("53",), False),
        Query(Address("{$a"), "ts.net", ("53",), False),
    ],
    ids=str,
)
def test_an_address_takes_queries_for_its_zone_and_port(query: Query) -> None:
    assert query.address.may_be(query.zone, query.ports) is query.expected


@given(corefiles())
def test_a_generated_file_is_read(text: str) -> None:
    found = parse(text)
    starts = [block.start for block in found.blocks]
    assert starts == sorted(starts)
    assert all(text[block.end - 1] == "}" for block in found.blocks)


@given(texts())
def test_a_file_gives_what_it_says_or_the_one_error(text: str) -> None:
    with contextlib.suppress(CorefileError):
        parse(text)
    with contextlib.suppress(CorefileError):
        parse_plugins(text)


SIZE = 1 << 17
LARGE = {
    "quotes": '"' * SIZE,
    "an escape": '"' + "\\" * SIZE,
    "comments": "#\n" * (SIZE // 2),
    "comments in words": "a#" * (SIZE // 2),
    "carriage returns": "a\r" * (SIZE // 2),
    "spaces": " \t" * (SIZE // 2) + "{",
    "open variables": "{$" * (SIZE // 4) + "{%" * (SIZE // 4) + " {\n}\n",
    "variables": "{$A}" * (SIZE // 4) + " {\n}\n",
    "colons": ":" * SIZE + " {\n}\n",
    "words": "a " * (SIZE // 2),
    "zones": "a," * (SIZE // 2),
    "blocks": "a {\n}\n" * (SIZE // 6),
    "plugins": ". {\n" + "errors\n" * (SIZE // 7) + "}\n",
    "braces": ". {\na " + "{ " * (SIZE // 2),
    "snippets": chain(SIZE // 24),
    "imports": "(s) {\n" + "log\n" * 999 + "}\n. {\n" + "import s\n" * (SIZE // 9),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_large_file_takes_no_longer_than_it_must(text: str) -> None:
    """Quadratic time would be minutes."""
    with contextlib.suppress(CorefileError):
        for block in parse(text).blocks:
            assert not any(address.may_be("ts.net", {"53"}) for address in block.addresses if not address.zone)
