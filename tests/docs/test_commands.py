"""Every command in the documentation has a test that runs it, or a reason in fates.py why no test does."""

import re
from pathlib import Path

import pytest

from tests.docs.fates import RUN_BY, RUN_BY_NONE, entries_of
from tests.docs.pages import PAGES, ROOT, fences, functions_of, name_of, normalised, outputs, shell

PROGRAMS = re.compile(r" *(\$ )?(kubectl|helm|make|docker|dnsload|tsoperator|pip|curl|dig) ")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_documented_command_has_exactly_one_entry_in_the_two_tables_of_commands(page: Path) -> None:
    entries = {command: entries_of(normalised(command)) for command in shell(page)}
    assert {command: found for command, found in entries.items() if len(found) != 1} == {}


def test_every_entry_in_the_tables_of_commands_is_for_a_documented_command() -> None:
    used = {entry for page in PAGES for command in shell(page) for entry in entries_of(normalised(command))}
    assert {*RUN_BY, *RUN_BY_NONE} - used == set()


def test_no_documented_command_is_both_in_the_table_with_tests_and_in_the_table_without_tests() -> None:
    assert RUN_BY.keys() & RUN_BY_NONE.keys() == set()


@pytest.mark.parametrize("test", sorted(set(RUN_BY.values())))
def test_the_test_that_the_table_names_for_a_documented_command_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in functions_of(ROOT / file)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_of_the_docs_have_commands_only_in_shell_blocks(page: Path) -> None:
    others = [body for kind, body in fences(page) if kind not in ("sh", "console")]
    assert [line for body in others for line in body.splitlines() if PROGRAMS.match(line)] == []


def test_a_documented_command_over_several_lines_is_read_as_one_command(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\n# why\nmake a    # b\nkubectl \\\n  get 'x\n  y' | sh\nkubectl apply -f - <<END\na: 1\nEND\n```\n"
        "1. one\n   ```console\n   $ ls -a\n   file\n   ```\n\n```yaml\nmake: nothing\n```\n"
    )
    found = [normalised(command) for command in shell(page)]
    assert found == ["make a", "kubectl get 'x y' | sh", "kubectl apply -f - <<END a: 1 END", "ls -a"]
    page.write_text("```sh\necho 'one\n```\n")
    with pytest.raises(ValueError, match="no end of"):
        list(shell(page))


def test_the_block_directly_below_a_block_of_commands_is_read_as_their_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    others = "```sh\npwd\n```\nwords\n```\n/\n```\n```sh\nid\n```\n```yaml\na: 1\n```\n"
    page.write_text(f"```sh\nls\n```\n\n```\nfile\n```\n\n{others}")
    assert list(outputs(page)) == [("ls\n", "file\n")]
