"""The help on the variables: a table that fits a terminal."""

from tsoperator.variables import VARIABLES, described

LINES = described().splitlines()
COLUMN, WIDTH = 35, 116


def test_each_variable_begins_a_line_and_its_meaning_stays_in_the_second_column() -> None:
    names = [line[:COLUMN].strip() for line in LINES]
    assert [name for name in names if name] == [*VARIABLES]
    assert all(line[COLUMN - 1] == " " and line[COLUMN] != " " for line in LINES)


def test_the_meanings_are_whole_and_no_line_is_too_long() -> None:
    assert " ".join(line[COLUMN:] for line in LINES) == " ".join(VARIABLES.values())
    assert max(map(len, LINES)) <= WIDTH
    assert max(map(len, LINES)) > WIDTH - 10
