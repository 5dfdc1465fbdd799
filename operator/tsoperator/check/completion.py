"""Completes words of the command line in a shell."""

import argparse
import io
import os
import shlex
from collections.abc import Sequence
from typing import Any, Final

import argcomplete

from tsoperator.kube.config import context_names

_FILES, _WORDS_ONLY = 0, 4
"""The directives by which we tell kubectl to offer the names of files, or only our words."""
_OF_FILES: Final = ("--kubeconfig",)


class _Finder(argcomplete.CompletionFinder):  # type: ignore[misc]
    """Finds words for kubectl. kubectl doesn't open file 9 for argcomplete's debug output, so we drop the output."""

    def _init_debug_stream(self) -> None:
        argcomplete.io.debug_stream = io.StringIO()


def complete(parser: argparse.ArgumentParser) -> None:
    """If a shell asks for completions by way of argcomplete, print them and end the process; else do nothing."""
    _know_contexts(parser)
    argcomplete.autocomplete(parser, always_complete_options=False)


def kubectl_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """Return the completions of the last of *words*, which the user has only begun to type, as a text for kubectl.

    kubectl wants one completion a line, and in the last line a directive that says whether to offer names of files.
    """
    *before, begun = words or [""]
    if before and before[-1] in _OF_FILES:
        return f":{_FILES}\n"
    _know_contexts(parser)
    line = " ".join(["kubectl-tailnet", *map(shlex.quote, before), begun])
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    found = io.StringIO()
    kept = dict(os.environ)
    os.environ.update(asked)
    try:
        _Finder()(parser, always_complete_options=begun.startswith("-"), exit_method=_stay, output_stream=found)
    finally:
        os.environ.clear()
        os.environ.update(kept)
    offered = [word.strip() for word in found.getvalue().splitlines()]
    return "".join(f"{word}\n" for word in [*filter(None, offered), f":{_WORDS_ONLY}"])


def _stay(_code: int = 0) -> None:
    """Do nothing, so that the process goes on where argcomplete would end it."""


def _know_contexts(parser: argparse.ArgumentParser) -> None:
    """Offer the names of the kubeconfig's contexts as values of ``--context``."""
    for action in _actions(parser):
        if "--context" in action.option_strings:
            action.completer = _contexts  # type: ignore[attr-defined]


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            found += [each for command in action.choices.values() for each in _actions(command)]
    return found


def _contexts(parsed_args: argparse.Namespace, **_asked: Any) -> list[str]:
    kubeconfig = getattr(parsed_args, "kubeconfig", "") or os.environ.get("KUBECONFIG", "")
    return context_names(kubeconfig)
