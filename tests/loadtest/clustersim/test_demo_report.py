import pytest
from clustersim.demo_report import Row, delays, table


def test_the_table_of_the_demo_has_a_line_for_each_further_address_of_a_name() -> None:
    assert table([Row("service/db", "db.tail1234.ts.net", ("192.0.2.1", "2001:db8::1"), 0.714)]) == [
        "object      name                address      ready after",
        "----------  ------------------  -----------  -----------",
        "service/db  db.tail1234.ts.net  192.0.2.1    0.71 s",
        "                                2001:db8::1",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ([0.001] * 19 + [0.5], "p50 1.0 ms, max 500.0 ms (goal: p50 < 100 ms, met)"),
        ([0.001, 0.15, 0.15], "p50 150.0 ms, max 150.0 ms (goal: p50 < 100 ms, missed)"),
    ],
)
def test_the_report_of_the_demo_summarizes_delays_in_milliseconds(seconds: list[float], words: str) -> None:
    assert delays(seconds).endswith(words)
