"""The syntax of Corefiles, as CoreDNS reads it."""

import contextlib

import pytest
from hypothesis import given
from tsoperator.dns.cluster.corefile import Address, CorefileError, Directive, parse, parse_plugins

from tests.operator.dns.cluster.corefiles import corefiles, texts

ROOT = Address("")

CASES: dict[str, tuple[str, list[Address], dict[str, list[str]]]] = {
    "a block": (".:5 {\n errors\n forward . a\n}\n", [Address("", "5")], {"errors": [], "forward": [".", "a"]}),
    "no final newline": (". {\n  errors\n}", [ROOT], {"errors": []}),
    "CRLF": (". {\r\n  errors\r\n}\r\n", [ROOT], {"errors": []}),
    "a byte order mark": ("\ufeff. {\n}\n", [ROOT], {}),
    "no zone": ("{\n  errors\n}\n", [], {"errors": []}),
    "several zones": ("a.b c:5 {\n}\n", [Address("a.b"), Address("c", "5")], {}),
    "commas": ("a, b,\nc {\n}\n", [Address("a"), Address("b"), Address("c")], {}),
    "capital letters and a dot": ("TS.Net.:53 {\n}\n", [Address("ts.net", "53")], {}),
    "TLS": ("tls://. {\n}\n", [Address("", "", "tls")], {}),
    "schemes": ("https://a:443 dns://b {\n}\n", [Address("a", "443", "https"), Address("b")], {}),
    "an unknown scheme": ("tcp://a:1 {\n}\n", [Address("tcp://a", "1")], {}),
    "variables": ("{$A}.b:{%P%} {\n}\n", [Address("{$a}.b", "{%P%}")], {}),
    "a reverse zone": ("10.0.0.0/8 {\n}\n", [Address("10.0.0.0/8")], {}),
    "a brace in the next line": (".\n{\nerrors\n{\n x\n}\n}\n", [ROOT], {"errors": []}),
    "options": (". {\n x . a {\n  policy random\n  x {\n  y\n }\n }\n log\n}\n", [ROOT], {"x": [".", "a"], "log": []}),
    "options in one line": (". {\n health { lameduck 5s }\n errors\n}\n", [ROOT], {"health": [], "errors": []}),
    "words behind options": (". {\n x {\n } y\n errors\n}\n", [ROOT], {"x": [], "errors": []}),
    "a plugin behind the brace": (". { errors\n}\n", [ROOT], {"errors": []}),
    "no space needed": ('. {\n log "a"b\n}\n', [ROOT], {"log": ["a", "b"]}),
    "quotes": ('. {\n log "a b" "#"\n errors\n}\n', [ROOT], {"log": ["a b", "#"], "errors": []}),
    "escapes": ('. {\n log "c \\"d\\" \\e \\\\"\n}\n', [ROOT], {"log": ['c "d" \\e \\\\']}),
    "a quoted newline": ('. {\n log "a\nb" c\n errors\n}\n', [ROOT], {"log": ["a\nb", "c"], "errors": []}),
    "a quoted zone": ('"" "a" {\n}\n', [Address("a")], {}),
    "a quote in a word": ('. {\n log a"b c"\n}\n', [ROOT], {"log": ['a"b', 'c"']}),
    "comments": ("# x {\n. { # y {\n errors # z\n}\n# }", [ROOT], {"errors": []}),
    "a comment in a word": (". {\n errors#no yes\n}\n", [ROOT], {"errors": ["yes"]}),
    "odd spaces": ("\u3000.\xa0{\v\f\n\terrors\u2028x\r\n}\x85", [ROOT], {"errors": ["x"]}),
    "a carriage return in a word": (". {\n err\rors\n}\n", [ROOT], {"errors": []}),
    "an unknown file": (". {\n import a/*.b\n errors\n}\n", [ROOT], {"import": ["a/*.b"], "errors": []}),
    "an import among options": (". {\n x {\n  import y\n }\n}\n", [ROOT], {"x": []}),
    "a snippet": ("(s) {\n errors\n log a\n}\n. {\n import s\n}\n", [ROOT], {"errors": [], "log": ["a"]}),
    "nested snippets": ("(s) {\n x\n}\n(t) {\n import s\n y\n}\n. {\n import t\n}\n", [ROOT], {"x": [], "y": []}),
    "a snippet of blocks": ("(s) {\n a {\n  errors\n }\n}\nimport s\n", [Address("a")], {"errors": []}),
    "a snippet with braces": ("(s) {\n x {\n  y\n }\n}\n. {\n import s\n}\n", [ROOT], {"x": []}),
    "a snippet that comes later": (". {\n import s\n}\n(s) {\n errors\n}\n", [ROOT], {"import": ["s"]}),
    "a snippet beside a zone": ("(s) a {\n}\n", [Address("(s)"), Address("a")], {}),
    "import as an argument": (". {\n log import x\n}\n", [ROOT], {"log": ["import", "x"]}),
}


@pytest.mark.parametrize(("text", "addresses", "directives"), CASES.values(), ids=CASES)
def test_a_server_block_of_a_corefile_is_parsed(
    text: str, addresses: list[Address], directives: dict[str, list[str]]
) -> None:
    (block,) = parse(text).blocks
    assert [*block.addresses] == addresses
    assert {each.name: each.args for each in block.directives} == directives


def test_a_parsed_server_block_has_its_position_in_the_corefile() -> None:
    text = "# a\nx {\n errors\n} y z {\n\n log\n}\nimport a\n(s) {\n}\nimport b/*\n"
    found = parse(text)
    assert [text[block.start : block.end] for block in found.blocks] == ["x {\n errors\n}", "y z {\n\n log\n}"]
    assert [(block.line, [each.line for each in block.directives]) for block in found.blocks] == [(2, [3]), (4, [6])]
    assert found.imports == ["a", "b/*"]
    assert [(text[each.start : each.end], each.line) for each in found.comments] == [("# a", 1)]


def test_a_plugin_is_found_in_any_server_block_of_a_corefile() -> None:
    found = parse("(s) {\n reload 10s\n}\na {\n errors\n}\nb {\n import s\n}\n")
    assert (found.has("reload"), found.has("loop")) == (True, False)


def test_a_file_that_a_server_block_imports_has_only_plugins() -> None:
    text = "# x\nlog\nforward ts.net 10.0.0.1 {\n force_tcp\n}\n"
    assert parse_plugins(text) == [Directive("log", [], 2), Directive("forward", ["ts.net", "10.0.0.1"], 3)]
    with pytest.raises(CorefileError, match="line 2: there is no plugin before }"):
        parse_plugins("log\n}\n")


OPEN_BLOCK = "the server block that begins here has no closing brace; add }"
NO_BLOCK = "begins no server block; put the block's plugins in braces"
NO_ZONE = "a zone is missing after the comma; remove the comma"
ONE_IMPORT = "import takes the name of one snippet or file; name one"
ERRORS = {
    "no closing brace": (". {\n errors\n", f"line 1: {OPEN_BLOCK}"),
    "a brace for options only": (". {\n a {\n }\n", f"line 1: {OPEN_BLOCK}"),
    "options without an end": (". {\n\n errors {\n", "line 3: the options of errors have no closing brace; add }"),
    "too many braces": (". {\n}\n}\n", "line 3: there is a closing brace too many; remove it"),
    "no braces": ("\n.:53\nerrors\n", f"line 2: .:53 {NO_BLOCK}"),
    "no braces at the end": (". {\n}\na", f"line 3: a {NO_BLOCK}"),
    "a long word": ("x" * 99, f"line 1: {'x' * 80}... {NO_BLOCK}"),
    "a brace behind a plugin": (". {\n a }\n", "line 2: there is a } behind a; put it in a line of its own"),
    "braces for no plugin": (". {\n {\n }\n}\n", "line 2: there is no plugin before {; remove this brace"),
    "an open quote": ('. {\n log "a\n}\n', 'line 2: a quoted word has no end; add the closing "'),
    "an open quote after others": ('"a\nb" {\n}\n"', 'line 4: a quoted word has no end; add the closing "'),
    "a comma": ("a, {\n}\n", f"line 1: {NO_ZONE}"),
    "an import after a comma": ("a,\nimport b\n", f"line 2: {NO_ZONE}"),
    "no port": ("a b: {\n}\n", "line 1: b: has no port after the colon; add the port, or remove the colon"),
    "an import of nothing": (". {\n import\n errors\n}\n", f"line 2: {ONE_IMPORT}"),
    "an import of no name": ('import ""\n', f"line 1: {ONE_IMPORT}"),
    "an import of two": ("import a b\n", f"line 1: {ONE_IMPORT}"),
    "an import of a brace, too": (". { import a }\n", f"line 1: {ONE_IMPORT}"),
    "an option imports two": (". {\n a {\n  import b c\n }\n}\n", f"line 3: {ONE_IMPORT}"),
    "a snippet twice": ("(s) {\n}\n(s) {\n}\n", "line 3: snippet s is there twice; remove one"),
    "a snippet without an end": ("(s) {\n a {\n }\n", "line 1: snippet s has no closing brace; add }"),
    "itself": ("(s) {\n import s\n}\n. {\n import s\n}\n", "line 2: snippet s leads to too many imports; import less"),
}


@pytest.mark.parametrize(("text", "message"), ERRORS.values(), ids=ERRORS)
def test_the_error_for_an_invalid_corefile_has_the_position_of_the_mistake_and_the_cure(
    text: str, message: str
) -> None:
    with pytest.raises(CorefileError) as raised:
        parse(text)
    assert str(raised.value) == message


def chain(length: int, start: int = 0) -> str:
    """Return *length* snippets, each of which imports the snippet before it, and a block that imports the last one."""
    snippets = "".join(f"(s{number}) {{\n import s{number - 1}\n}}\n" for number in range(1, length))
    return f"(s0) {{\n log\n}}\n{snippets}. {{\n import s{length - 1}\n}}\n"


def test_a_corefile_that_imports_too_many_snippets_is_an_error() -> None:
    assert parse(chain(50)).has("log")
    with pytest.raises(CorefileError, match="too many imports"):
        parse(chain(51))
    words = "(s) {\n" + "log\n" * 999 + "}\n. {\n"
    assert parse(words + "import s\n" * 100 + "}\n").has("log")
    with pytest.raises(CorefileError, match="too many imports"):
        parse(words + "import s\n" * 101 + "}\n")


@pytest.mark.parametrize(
    ("address", "ports", "taken"),
    [
        (Address("ts.net", "53"), ("53",), True),
        (Address("ts.net"), ("53", "8053"), True),
        (Address("ts.net"), ("8053",), False),
        (Address("ts.net", "8053"), None, True),
        (Address("ts.net", "{$P}"), ("53",), True),
        (Address("ts.net", "", "tls"), ("53",), False),
        (Address("net"), ("53",), False),
        (Address("a.ts.net"), ("53",), False),
        (Address(""), ("53",), False),
        (Address("{$a}"), ("53",), True),
        (Address("{$a}.net"), ("53",), True),
        (Address("ts.{%a%}"), ("53",), True),
        (Address("{$a}.org"), ("53",), False),
        (Address("x{$a}net"), ("53",), False),
        (Address("{$a"), ("53",), False),
    ],
    ids=str,
)
def test_an_address_of_a_server_block_matches_queries_by_zone_and_port(
    address: Address, ports: tuple[str, ...] | None, *, taken: bool
) -> None:
    assert address.may_be("ts.net", ports) is taken


@given(corefiles())
def test_a_generated_corefile_is_parsed(text: str) -> None:
    found = parse(text)
    starts = [block.start for block in found.blocks]
    assert starts == sorted(starts)
    assert all(text[block.end - 1] == "}" for block in found.blocks)


@given(texts())
def test_parsing_any_text_ends_with_a_result_or_a_corefile_error(text: str) -> None:
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
def test_a_large_corefile_is_parsed_in_linear_time(text: str) -> None:
    """Parse files so large that quadratic time would take minutes."""
    with contextlib.suppress(CorefileError):
        for block in parse(text).blocks:
            assert not any(address.may_be("ts.net", {"53"}) for address in block.addresses if not address.zone)
