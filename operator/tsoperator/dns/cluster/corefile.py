"""A parser of Corefiles, which have the syntax of a Caddyfile (github.com/coredns/caddy).

White space separates words. A word in double quotes can contain white space and escaped quotes. ``#`` begins a comment;
a comment that begins inside a word ends with that word. A server block is one or more addresses, each with an optional
scheme and port, and directives in braces. A block named ``(x)`` is a snippet, and ``import x`` stands for the words of
the snippet x, or else of the files whose path or pattern is x. ``{$X}`` and ``{%X%}`` stand for variables of CoreDNS's
environment, whose values only CoreDNS knows.

This parser accepts a little less than CoreDNS. CoreDNS also accepts a server block without braces, and a file whose
last closing brace is missing. We refuse such a file: a block that we add at its end would become a part of the file's
last block.
"""

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_WORD: Final = re.compile(
    rf'[{_SPACE}]*+(?:(?P<comment>\#[^\n]*+)|"(?P<quoted>[^"\\]*+(?:\\.[^"\\]*+)*+)"|(?P<open>")'
    rf"|(?P<plain>[^{_SPACE}]++(?:\r(?!\n)[^{_SPACE}]*+)*+))",
    re.DOTALL,
)
_VARIABLE: Final = re.compile(r"\{\$[^{}]+\}|\{%[^{%]+%\}")
_SCHEMES: Final = ("dns", "tls", "quic", "grpc", "https", "https3", "unix")
_MAX_IMPORTED: Final = 100_000
"""The largest number of words that imports of snippets can add to a Corefile; each import counts as a word, too."""
_MAX_DEPTH: Final = 50
"""The largest number of levels at which snippets in a Corefile import each other."""


class CorefileError(Exception):
    """An error: a Corefile can't be read. It has the *line*, the *problem* there, and its *cure*."""

    def __init__(self, line: int, problem: str, cure: str) -> None:
        super().__init__(f"line {line}: {problem}; {cure}")
        self.line = line
        self.problem = problem
        self.cure = cure


class Span(NamedTuple):
    """A word or a comment: its text, the lines in which it begins and ends, and its position in the Corefile."""

    text: str
    line: int
    end_line: int
    start: int
    end: int


class Address(NamedTuple):
    """An address of a server block. *zone* is empty for the root. *port* is empty if the address names no port."""

    zone: str
    port: str = ""
    scheme: str = "dns"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Return the parsed form of *text*, which is an address of a server block in a Corefile."""
        scheme, found, rest = text.partition("://")
        if not found or scheme not in _SCHEMES:
            scheme, rest = "dns", text
        zone, colon, port = rest.rpartition(":")
        if not colon or not (re.fullmatch(r"[0-9]+", port) or _VARIABLE.fullmatch(port)):
            zone, port = rest, ""
        return cls(zone.lower().removesuffix("."), port, scheme)

    def may_be(self, zone: str, ports: Container[str] | None) -> bool:
        """Tell whether this address of a server block can be one for *zone* and plain DNS queries at one of *ports*.

        The address has to name *zone*, not a parent zone. If *ports* is None, the port doesn't matter. A variable in
        the address can have any value, so it matches any text.
        """
        first, *others = _VARIABLE.split(self.zone)
        is_zone = zone.startswith(first) and zone.endswith(others[-1]) if others else zone == first
        is_port = ports is None or has_variable(self.port) or (self.port or "53") in ports
        return self.scheme == "dns" and is_zone and is_port


class Directive(NamedTuple):
    """A plugin and its arguments, without its options in braces. An ``import`` of files is a Directive, too."""

    name: str
    args: Sequence[str]
    line: int


class Block(NamedTuple):
    """A server block and its position in the text. The words of snippets have replaced their imports."""

    addresses: Sequence[Address]
    directives: Sequence[Directive]
    line: int
    start: int
    end: int

    def named(self, plugin: str) -> Iterator[Directive]:
        """Yield the directives of this server block that configure *plugin*."""
        return (each for each in self.directives if each.name == plugin)


@dataclass(frozen=True, slots=True)
class Corefile:
    """The contents of a Corefile, in the order of the file."""

    blocks: Sequence[Block]
    imports: Sequence[str]
    """The files, or patterns of files, that the Corefile imports outside of server blocks."""
    comments: Sequence[Span]

    def has(self, plugin: str) -> bool:
        """Tell whether any server block of this Corefile has *plugin*, such as reload or loop."""
        return any(each.name == plugin for block in self.blocks for each in block.directives)


def parse(text: str) -> Corefile:
    """Return the contents of the Corefile *text*; raises CorefileError."""
    words, comments = _split(text)
    parser = _Parser(words)
    parser.file()
    return Corefile(parser.blocks, parser.imports, comments)


def parse_plugins(text: str) -> Sequence[Directive]:
    """Return the directives of a file that is imported into a server block; raises CorefileError."""
    return _Parser(_split(text)[0]).directives()


def has_variable(text: str) -> bool:
    """Tell whether *text* names a variable of CoreDNS's environment."""
    return _VARIABLE.search(text) is not None


def _split(text: str) -> tuple[list[Span], list[Span]]:
    """Return the words and the comments of the Corefile *text*."""
    words: list[Span] = []
    comments: list[Span] = []
    position, line = int(text.startswith("\ufeff")), 1
    while found := _WORD.match(text, position):
        kind = found.lastgroup or ""
        content = found[kind]
        start = found.start(kind) - (kind == "quoted")
        line += text.count("\n", position, start)
        position = found.end()
        match kind:
            case "comment":
                content = content.removesuffix("\r")
                comments.append(Span(content, line, line, start, start + len(content)))
            case "open":
                raise CorefileError(line, "a quoted word has no end", 'add the closing "')
            case "quoted":
                word = re.sub(r"\\(.)", lambda escape: '"' if escape[1] == '"' else escape[0], content, flags=re.DOTALL)
                words.append(Span(word, line, line + content.count("\n"), start, position))
            case _:
                word = content.partition("#")[0].rstrip("\r")  # a comment inside a word ends where the word ends
                words.append(Span(word.replace("\r", ""), line, line, start, start + len(word)))
        line += content.count("\n")
    return words, comments


@dataclass(slots=True)
class _Snippets:
    """The snippets that the parser has read so far, and the number of words (*left*) that imports can still add."""

    words: dict[str, Sequence[Span]] = field(default_factory=dict)
    left: int = _MAX_IMPORTED


@dataclass(slots=True)
class _Parser:
    """A parser of the words of a file, or of the words of a snippet that a file imports."""

    words: Sequence[Span]
    snippets: _Snippets = field(default_factory=_Snippets)
    importing: tuple[str, ...] = ()
    at: int = 0
    blocks: list[Block] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)

    def file(self) -> None:
        """Read server blocks, snippets and imports up to the end of the words."""
        while self.at < len(self.words):
            if self.words[self.at].text == "import" and self._opens_line():
                name = self._imported()
                if snippet := self._snippet(name):
                    snippet.file()
                else:
                    self.imports.append(name.text)
            else:
                self._block()

    def directives(self, opened: int | None = None) -> list[Directive]:
        """Read directives up to the end of the words.

        If the directives are in a block, which begins in line *opened*, read them up to the closing brace of that
        block.
        """
        found: list[Directive] = []
        while self.at < len(self.words):
            word = self.words[self.at]
            if word.text == "}" and opened is not None:
                self.at += 1
                return found
            if word.text in {"{", "}"}:
                raise CorefileError(word.line, f"there is no plugin before {word.text}", "remove this brace")
            if word.text != "import":
                found.append(self._directive())
                continue
            name = self._imported()
            if snippet := self._snippet(name):
                found += snippet.directives()
            else:
                found.append(Directive("import", [name.text], word.line))
        if opened is not None:
            raise CorefileError(opened, "the server block that begins here has no closing brace", "add }")
        return found

    def _block(self) -> None:
        first = self.words[self.at]
        names = self._names()
        self.at += 1
        if len(names) == 1 and re.fullmatch(r"\(.*\)", names[0], re.DOTALL):
            self._define(names[0][1:-1], first.line)
            return
        directives = self.directives(first.line)
        addresses = [*map(Address.parse, names)]
        if wrong := next((each for each in addresses if each.zone.endswith(":")), None):
            raise CorefileError(
                first.line, f"{_short(wrong.zone)} has no port after the colon", "add the port, or remove the colon"
            )
        self.blocks.append(Block(addresses, directives, first.line, first.start, self.words[self.at - 1].end))

    def _names(self) -> list[str]:
        """Read the names of a block up to its opening brace.

        A comma at the end of a line means that the next line has more names.
        """
        first = self.at
        names: list[str] = []
        joined = True
        while self.at < len(self.words):
            word = self.words[self.at]
            if word.text == "{":
                if joined and names:
                    raise CorefileError(word.line, "a zone is missing after the comma", "remove the comma")
                return names
            if word.text == "}" or (not joined and self._opens_line()):
                break
            if word.text == "import" and names and self._opens_line():
                raise CorefileError(word.line, "a zone is missing after the comma", "remove the comma")
            self.at += 1
            joined = word.text.endswith(",")
            if word.text:
                names.append(word.text.removesuffix(","))
        word = self.words[first]
        if word.text == "}":
            raise CorefileError(word.line, "there is a closing brace too many", "remove it")
        raise CorefileError(
            word.line, f"{_short(word.text)} begins no server block", "put the block's plugins in braces"
        )

    def _define(self, name: str, line: int) -> None:
        """Read the words of the snippet called *name*, so that the parser can import them later."""
        if name in self.snippets.words:
            raise CorefileError(line, f"snippet {_short(name)} is there twice", "remove one")
        begin, depth = self.at, 1
        while self.at < len(self.words):
            text = self.words[self.at].text
            depth += (text == "{") - (text == "}")
            self.at += 1
            if not depth:
                self.snippets.words[name] = self.words[begin : self.at - 1]
                return
        raise CorefileError(line, f"snippet {_short(name)} has no closing brace", "add }")

    def _directive(self) -> Directive:
        word = self.words[self.at]
        args: list[str] = []
        depth = 0
        plain = True
        self.at += 1
        while self.at < len(self.words):
            text = self.words[self.at].text
            if text == "{":
                depth += 1
                plain = False
            elif not depth and self._opens_line():
                break
            elif text == "}":
                if not depth:
                    raise CorefileError(
                        word.line, f"there is a }} behind {_short(word.text)}", "put it in a line of its own"
                    )
                depth -= 1
            elif text == "import" and self._opens_line():
                self._imported()
                continue
            elif plain:
                args.append(text)
            self.at += 1
        if depth:
            raise CorefileError(word.line, f"the options of {_short(word.text)} have no closing brace", "add }")
        return Directive(word.text, args, word.line)

    def _imported(self) -> Span:
        """Read the name of the snippet or file that a line imports."""
        line = self.words[self.at].line
        self.at += 1
        begin = self.at
        while self.at < len(self.words) and not self._opens_line():
            self.at += 1
        if self.at - begin != 1 or not self.words[begin].text:
            raise CorefileError(line, "import takes the name of one snippet or file", "name one")
        return self.words[begin]

    def _snippet(self, name: Span) -> "_Parser | None":
        """Return a parser for the words of the snippet called *name*; None if there is no such snippet."""
        words = self.snippets.words.get(name.text)
        if words is None:
            return None
        self.snippets.left -= len(words) + 1
        if name.text in self.importing or len(self.importing) == _MAX_DEPTH or self.snippets.left < 0:
            raise CorefileError(name.line, f"snippet {_short(name.text)} leads to too many imports", "import less")
        return replace(self, words=words, importing=(*self.importing, name.text), at=0)

    def _opens_line(self) -> bool:
        return self.at == 0 or self.words[self.at - 1].end_line < self.words[self.at].line


def _short(word: str) -> str:
    """Return the beginning of *word*, short enough for a message."""
    return word if len(word) <= 80 else f"{word[:80]}..."
