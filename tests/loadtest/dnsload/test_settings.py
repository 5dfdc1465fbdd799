"""Tests of the command line of dnsload."""

from pathlib import Path

import pytest
from dnsload.errors import InputError
from dnsload.schedule import Segment
from dnsload.settings import Settings, parse_duration, read_settings
from dnsload.targets import Target
from dnsload.workload import QueryForm

BASE = ("--target", "127.0.0.1:5353", "--records", "records.json")


def read(*arguments: str) -> Settings:
    return read_settings([*BASE, *arguments])


def test_every_option_of_dnsload_has_its_default() -> None:
    settings = read()
    assert settings.targets == (Target("127.0.0.1", 5353),)
    assert settings.records == (Path("records.json"),)
    assert settings.speed.segments == (Segment(10, 1000, 1000),)
    assert (settings.types, settings.timeout, settings.max_loss, settings.engine) == (("A",), 2.0, 0.001, "auto")
    assert settings.form == QueryForm()


@pytest.mark.parametrize(
    ("arguments", "words", "segments"),
    [
        ("--rate 5000 --duration 1m", "5,000 queries/s", (Segment(60, 5000, 5000),)),
        ("--rate 1000..20000 --duration 9", "1,000 to 20,000 queries/s", (Segment(9, 1000, 20000),)),
        ("--steps 10,50", "steps of 10, 50 queries/s, 30 s each", (Segment(30, 10, 10), Segment(30, 50, 50))),
        ("--steps 1000 --step-seconds 5", "steps of 1,000 queries/s, 5 s each", (Segment(5, 1000, 1000),)),
        ("--soak", "1,000 queries/s", (Segment(3600, 1000, 1000),)),
        ("--concurrency 100", "closed loop, 100 outstanding", ()),
    ],
)
def test_the_options_about_rate_and_concurrency_of_dnsload_are_parsed_and_described_in_words(
    arguments: str, words: str, segments: tuple[Segment, ...]
) -> None:
    speed = read(*arguments.split()).speed
    assert (speed.segments, str(speed)) == (segments, words)


def test_the_user_of_dnsload_can_name_several_targets() -> None:
    assert read("--target", "[::1]:53").targets == (Target("127.0.0.1", 5353), Target("::1", 53))


def test_the_option_for_the_do_flag_implies_edns_and_the_option_resolver_sets_the_rd_flag() -> None:
    assert read("--dnssec-ok", "--resolver").form == QueryForm(1232, dnssec_ok=True, recursion_desired=True)


@pytest.mark.parametrize(
    ("arguments", "size", "options"),
    [
        ("--nsid", 1232, [(3, "")]),
        ("--cookie 0011223344556677 --edns 4096", 4096, [(10, "0011223344556677")]),
        ("--cookie --seed 1", 1232, [(10, "ffe42279f3bd0683")]),
        ("--client-subnet 192.0.2.0/24", 1232, [(8, "00011800c00002")]),
        ("--client-subnet 2001:db8::/32 --nsid", 1232, [(8, "0002200020010db8"), (3, "")]),
    ],
)
def test_any_option_of_dnsload_about_edns_turns_edns_on(
    arguments: str, size: int, options: list[tuple[int, str]]
) -> None:
    form = read(*arguments.split()).form
    assert form.edns == size
    assert [(int(each.otype), (each.to_wire() or b"").hex()) for each in form.options] == options


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("24h", 86400)])
def test_a_duration_on_the_command_line_of_dnsload_is_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--rate 1000001", "at most 1,000,000"),
        ("--rate 0", "more than 0"),
        ("--rate fast", "'fast' is not a number"),
        ("--rate nan", "'nan' is not a number"),
        ("--rate 1000..", "'' is not a number"),
        ("--duration 25h", "at most 24 hours"),
        ("--duration 5d", "such as 90, 90s"),
        ("--steps 1000 --step-seconds 86400 --duration 5", "leave --duration out"),
        ("--steps 1000,1000 --step-seconds 86400", "at most 24 hours"),
        ("--rate 5 --concurrency 5", "exclude each other"),
        ("--step-seconds 5", "goes with --steps"),
        ("--soak --rate 1..2", "constant rate"),
        ("--passes 0", "from 1 to 1,000,000"),
        ("--passes 2 --miss 0.1", "leave --miss out"),
        ("--passes 2 --workers 2 --concurrency 5", "leave --workers out"),
        ("-n 2 --target 192.0.2.53", "leave a second --target out"),
        ("-n 2 --rate 1..2", "leave a ramp out"),
        ("--source here", "'here' is not an IP address"),
        ("--source ::1", "not of the same IP version"),
        ("--cookie 12345", "not hexadecimal"),
        ("--cookie 1234", "not a cookie"),
        ("--client-subnet 192.0.2.1/24", "not a subnet such as"),
        ("--miss 1.5", "not a share"),
        ("--miss 0.6 --malformed 0.6", "more than all"),
        ("--edns 65536", "from 0 to 65,535"),
        ("--new-connections", "goes with --tcp"),
        ("--tcp --tcp-retry", "is for UDP"),
        ("--engine asyncio --workers 2", "is for the compiled engine"),
        ("--engine mmsg", "invalid choice"),
        ("--target :53", "has no address"),
        ("--wrong", "unrecognized arguments: --wrong"),
    ],
)
def test_the_error_about_bad_options_of_dnsload_has_one_line(arguments: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read(*arguments.split())
    assert "\n" not in str(caught.value)


def test_dnsload_requires_names_to_ask_for_and_a_target() -> None:
    with pytest.raises(InputError, match="--target"):
        read_settings(["--records", "r"])
    with pytest.raises(InputError, match="what to ask"):
        read_settings(["--target", "127.0.0.1"])


def test_the_help_of_dnsload_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read("--help")
    assert ended.value.code == 0
    said = capsys.readouterr().out
    examples = [line.split()[1:] for line in said.splitlines() if line.strip().startswith("dnsload --target 192")]
    assert len(examples) >= 5
    assert all(read_settings(example) for example in examples)
