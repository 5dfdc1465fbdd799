from tsoperator.api.objects import Signal, key_of
from tsoperator.runtime.feeds import Announcer

OURS, OTHER = Signal("Ours"), Signal("Other")


def test_an_announcer_of_a_signal_calls_only_the_listeners_of_that_signal_and_lists_no_objects() -> None:
    feed, told = Announcer(OURS), list[str]()
    feed.listen(OURS, lambda old, new: told.append(key_of(new or {}).name))
    feed.listen(OTHER, lambda old, new: told.append("other"))
    feed.announce()
    feed.announce("edge")
    assert (told, feed.all(OURS)) == (["", "edge"], [])
