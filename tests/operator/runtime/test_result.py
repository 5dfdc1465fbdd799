from tsoperator.runtime.result import DONE, Result


def test_done_asks_for_no_requeue() -> None:
    assert Result(requeue_after=None) == DONE
