"""Colours for a terminal, and text that is safe to print there."""

import os
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TextIO

RESET: Final = "\x1b[0m"
CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"
"""The sequence that makes a terminal empty, and moves its cursor to the first line."""


class Colour(Enum):
    """A colour: its value is the escape sequence that switches a terminal to it."""

    NONE = ""
    GREEN = "\x1b[32m"
    YELLOW = "\x1b[33m"
    RED = "\x1b[31m"

    def paint(self, text: str) -> str:
        """Return *text* in this colour."""
        return f"{self.value}{text}{RESET}" if self.value else text


def is_coloured(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether to write colours to *stream*: it is a terminal with colours, and NO_COLOR isn't set."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Return *text* with escapes in place of characters that control a terminal or reorder its text.

    Users write the texts of objects, so these texts can contain such characters.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def redrawn(lines: Iterable[str]) -> str:
    """Return the text that replaces the contents of a terminal by *lines* without flicker."""
    return "\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J"


def let_go_of_stdout() -> None:
    """Redirect stdout to the null device, so that the interpreter doesn't write to a closed pipe when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
