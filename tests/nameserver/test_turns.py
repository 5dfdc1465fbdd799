"""Tests of the queue that lets clients take turns."""

from tsnameserver.turns import Turns


def taken(turns: Turns[str, str]) -> str:
    """Take all items out of the queue, and return them."""
    items = ""
    while turns:
        items += turns.take()
    return items


def test_the_queue_serves_clients_in_turn_even_if_one_of_them_has_many_items() -> None:
    turns: Turns[str, str] = Turns()
    for item in "abcd":
        turns.add("one", item)
    for client, item in (("other", "x"), ("third", "1"), ("other", "y")):
        turns.add(client, item)
    assert taken(turns) == "ax1bycd"


def test_a_client_of_the_queue_waits_for_all_other_clients_after_its_turn() -> None:
    turns: Turns[str, str] = Turns()
    for client, item in (("one", "a"), ("one", "b"), ("other", "x")):
        turns.add(client, item)
    assert turns.take() == "a"
    turns.add("one", "c")
    turns.add("other", "y")
    assert taken(turns) == "xbyc"


def test_an_item_that_is_added_twice_is_in_the_queue_of_turns_only_once() -> None:
    turns: Turns[str, str] = Turns()
    for client, item in (("one", "a"), ("one", "b"), ("one", "a"), ("other", "x"), ("one", "b")):
        turns.add(client, item)
    turns.remove("one", "b")
    turns.remove("other", "x")
    turns.remove("third", "1")
    assert taken(turns) == "a"
