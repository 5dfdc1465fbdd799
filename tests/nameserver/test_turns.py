"""Tests of whose turn it is."""

from tsnameserver.turns import Turns


def taken(turns: Turns[str, str]) -> str:
    """Take everything out of the queue, and return it."""
    items = ""
    while turns:
        items += turns.take()
    return items


def test_clients_take_turns_however_much_one_of_them_has_waiting() -> None:
    turns: Turns[str, str] = Turns()
    for item in "abcd":
        turns.add("one", item)
    for client, item in (("other", "x"), ("third", "1"), ("other", "y")):
        turns.add(client, item)
    assert taken(turns) == "ax1bycd"


def test_a_client_that_has_had_its_turn_waits_for_the_others() -> None:
    turns: Turns[str, str] = Turns()
    for client, item in (("one", "a"), ("one", "b"), ("other", "x")):
        turns.add(client, item)
    assert turns.take() == "a"
    turns.add("one", "c")
    turns.add("other", "y")
    assert taken(turns) == "xbyc"


def test_what_waits_is_there_once_and_what_is_removed_is_not() -> None:
    turns: Turns[str, str] = Turns()
    for client, item in (("one", "a"), ("one", "b"), ("one", "a"), ("other", "x"), ("one", "b")):
        turns.add(client, item)
    turns.remove("one", "b")
    turns.remove("other", "x")
    turns.remove("third", "1")
    assert taken(turns) == "a"
