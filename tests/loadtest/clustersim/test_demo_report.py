from pathlib import Path

import pytest
from clustersim.demo_report import Row, commands, delays, device_table, table

ROW = Row("service/db", "db.tail1234.ts.net", ("192.0.2.1", "2001:db8::1"), 0.714)
EXIT = Row("connector/exit", "exit.tail1234.ts.net", ("192.0.2.3",), 1, "exit node")


def test_further_addresses_stand_below_the_first() -> None:
    assert table([ROW]) == [
        "object      name                address      ready after",
        "----------  ------------------  -----------  -----------",
        "service/db  db.tail1234.ts.net  192.0.2.1    0.71 s",
        "                                2001:db8::1",
    ]


def test_the_table_of_devices_shows_their_purpose() -> None:
    assert device_table([EXIT]) == [
        "object          device                offers     address    ready after",
        "--------------  --------------------  ---------  ---------  -----------",
        "connector/exit  exit.tail1234.ts.net  exit node  192.0.2.3  1.00 s",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ([0.001] * 19 + [0.5], "20 changes of an address"),
        ([0.001] * 19 + [0.5], "p50 1.0 ms, max 500.0 ms (goal: p50 < 100 ms, met)"),
        ([0.001, 0.15, 0.15], "p50 150.0 ms, max 150.0 ms (goal: p50 < 100 ms, missed)"),
    ],
)
def test_delays_are_summed_up_in_milliseconds(seconds: list[float], words: str) -> None:
    assert words in delays(seconds)


def test_every_name_of_the_tailnet_can_be_dug() -> None:
    local = Row("service/printer", "ts-printer-abcde.tailscale.svc.cluster.local", ("192.0.2.2",), 1)
    lines = commands(Path("/tmp/kubeconfig"), 5353, [ROW, local])
    assert [line.strip() for line in lines if "dig" in line] == ["dig @127.0.0.1 -p 5353 db.tail1234.ts.net"]
    assert sum("kubectl --kubeconfig /tmp/kubeconfig " in line for line in lines) == 4
