"""Tests of the queue in which clients have their turns."""

from tsnameserver.turns import Turns


def taken(turns: Turns[str, str]) -> str:
    """Take all items out of the queue, and return them."""
    items = ""
    while turns:
        items += turns.take()
    return items


def test_clients_take_turns_even_if_one_of_them_has_many_items_in_the_queue() -> None:
    turns: Turns[str, str] = Turns()
    for item in "abcd":
        turns.add("one", item)
    for client, item in (("other", "x"), ("third", "1"), ("other", "y")):
        turns.add(client, item)
    assert taken(turns) == "ax1bycd"


def test_a_client_waits_for_the_others_after_its_turn() -> None:
    turns: Turns[str, str] = Turns()
    for client, item in (("one", "a"), ("one", "b"), ("other", "x")):
        turns.add(client, item)
    assert turns.take() == "a"
    turns.add("one", "c")
    turns.add("other", "y")
    assert taken(turns) == "xbyc"


def test_an_item_waits_only_once_in_the_queue_until_it_is_taken_or_removed() -> None:
    turns: Turns[str, str] = Turns()
    for client, item in (("one", "a"), ("one", "b"), ("one", "a"), ("other", "x"), ("one", "b")):
        turns.add(client, item)
    turns.remove("one", "b")
    turns.remove("other", "x")
    turns.remove("third", "1")
    assert taken(turns) == "a"
