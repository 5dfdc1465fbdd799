"""Tests of the questions and packets that dnsload sends."""

from collections import Counter
from pathlib import Path

import dns.edns
import dns.message
import pytest
from dnsload.errors import InputError
from dnsload.expectations import ABSENT
from dnsload.workload import (
    MISS_LABEL_BYTES,
    Asked,
    Mix,
    QueryForm,
    Question,
    Workload,
    parse_questions,
    read_questions,
)

NAMES = [Question(f"n{number}.tail1234.ts.net", "A") for number in range(10)]


def parsed(asked: Asked) -> dns.message.Message:
    return dns.message.from_wire(b"\x00\x07" + asked.packet)


def workload(mix: Mix = Mix(), questions: list[Question] = NAMES) -> Workload:  # noqa: B008 - a frozen record
    return Workload(questions, None, QueryForm(), mix)


@pytest.mark.parametrize(
    "form",
    [
        QueryForm(),
        QueryForm(recursion_desired=True),
        QueryForm(edns=1232),
        QueryForm(edns=4096, dnssec_ok=True),
        QueryForm(edns=1232, options=(dns.edns.ECSOption("192.0.2.0", 24), dns.edns.NSIDOption(b""))),
    ],
)
def test_the_packets_of_dnsload_equal_those_of_dnspython(form: QueryForm) -> None:
    packet = Workload([Question("db.tail1234.ts.net", "AAAA")], None, form, Mix()).pool[0].packet
    query = dns.message.make_query(
        "db.tail1234.ts.net",
        "AAAA",
        id=7,
        flags=0x0100 if form.recursion_desired else 0,
        use_edns=form.edns is not None,
        payload=form.edns or 0,
        want_dnssec=form.dnssec_ok,
        options=list(form.options) or None,
    )
    assert b"\x00\x07" + packet == query.to_wire()


def test_dnsload_asks_for_a_name_as_often_as_the_name_is_listed() -> None:
    chosen = Counter(workload(questions=[*NAMES, NAMES[0]]).choose(22_000))
    assert {*chosen} == set(range(10))
    assert chosen[0] == pytest.approx(4000, rel=0.1)
    assert all(1700 < chosen[place] < 2300 for place in range(1, 10))


def test_questions_that_are_asked_in_order_start_again_after_the_last_one() -> None:
    load = workload(Mix(in_order=True), questions=[*NAMES, NAMES[3]])
    assert [*load.choose(4), *load.choose(20_000)] == ([*range(10), 3] * 2000)[:20_004]


def test_the_mix_of_questions_has_the_requested_shares_of_absent_names_and_malformed_packets() -> None:
    load = workload(Mix(miss=0.2, malformed=0.1, absent_names=10))
    chosen = [load.pool[place] for place in load.choose(20_000)]
    assert sum(asked.question is None for asked in chosen) == pytest.approx(2000, rel=0.1)
    assert sum(asked.expected is ABSENT for asked in chosen) == pytest.approx(4000, rel=0.1)


def test_the_absent_names_that_dnsload_makes_up_are_siblings_of_existing_names() -> None:
    load = workload(Mix(miss=1, absent_names=1000))
    names = {str(parsed(asked).question[0].name) for asked in load.pool if asked.expected is ABSENT}
    assert len(names) == 1000
    assert all(name.endswith(".tail1234.ts.net.") for name in names)
    assert {len(name.partition(".")[0]) + 1 for name in names} == {MISS_LABEL_BYTES}
    assert Mix().absent_names == 65_536


def test_the_malformed_packets_of_dnsload_differ_from_valid_queries() -> None:
    load = workload(Mix(malformed=0.5))
    well = {asked.packet for asked in load.pool if asked.question}
    damaged = [asked.packet for asked in load.pool if asked.question is None]
    assert len(damaged) > 1000
    assert sum(packet in well for packet in damaged) < len(damaged) * 0.01
    assert min(map(len, damaged)) < 12


def test_each_line_of_a_query_file_has_a_name_and_optionally_a_type() -> None:
    lines = ["DB.ts.net.", "", "# nothing", "a.ts.net mx # mail"]
    assert parse_questions(lines, ("A", "AAAA")) == [
        Question("db.ts.net", "A"),
        Question("db.ts.net", "AAAA"),
        Question("a.ts.net", "MX"),
    ]


def test_the_error_about_a_file_of_questions_names_the_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "names"
    path.write_text("a.ts.net\na.ts.net A 5\n")
    with pytest.raises(InputError, match="names: line 2"):
        read_questions(path, ("A",))


@pytest.mark.parametrize("question", [Question("a..b", "A"), Question("x" * 64 + ".ts.net", "A"), Question("a", "XX")])
def test_a_question_that_cannot_be_sent_is_an_input_error(question: Question) -> None:
    with pytest.raises(InputError):
        workload(questions=[question])
