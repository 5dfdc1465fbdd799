"""Tests of flags and variables."""

import logging
from pathlib import Path
from typing import NamedTuple

import pytest
from tsnameserver.configmaps import ApiSettings
from tsnameserver.errors import SettingsError
from tsnameserver.settings import misspelt, read_settings
from tsnameserver.sockets import Endpoint
from tsnameserver.zone import ZoneSettings

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "192.0.2.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "namespace").write_text("tailscale\n")
    return tmp_path


def test_the_defaults_suit_upstreams_deployment() -> None:
    settings = read_settings([], {"HOSTNAME": "nameserver-5c9f"})
    assert (settings.records, settings.snapshot) == (Path("/config/records.json"), None)
    assert settings.listen == (Endpoint("", 1053),)
    assert settings.zone == ZoneSettings(("ts.net",), 5, "nameserver.tailscale.svc.cluster.local.", "nameserver-5c9f")
    assert (settings.health, settings.metrics) == (Endpoint("", 9002), Endpoint("", 9153))
    assert (settings.api, settings.drain, settings.log_level, settings.log_format) == (None, 0, logging.INFO, "text")


def test_flags_are_read() -> None:
    arguments = ["--records", "r.json", "--listen", "127.0.0.1:53", "--listen", "[::1]:53", "--zone", "ts.example.org"]
    arguments += ["--nsid", "first", "--snapshot", "s"]
    settings = read_settings(
        [*arguments, "--ttl", "0", "--ns-name", "ns.example.org", "--health", "", "--drain", "3", "--metrics", ":1"],
        {"HOSTNAME": "another"},
    )
    assert (settings.records, settings.snapshot) == (Path("r.json"), Path("s"))
    assert settings.listen == (Endpoint("127.0.0.1", 53), Endpoint("::1", 53))
    assert settings.zone == ZoneSettings(("ts.example.org",), 0, "ns.example.org", "first")
    assert (settings.health, settings.metrics, settings.drain) == (None, Endpoint("", 1), 3)


def test_how_to_log_is_read() -> None:
    settings = read_settings(["--log-level", "warning", "--log-format", "json"], {"TSNAMESERVER_METRICS": ""})
    assert (settings.log_level, settings.log_format, settings.metrics) == (logging.WARNING, "json", None)
    shares = [read_settings([f"--log-queries={text}"], {}).log_queries for text in ("", "1/1", "1/999999999")]
    assert (shares, settings.log_queries) == ([0, 1, 999_999_999], 0)


def test_a_variable_does_the_same_as_its_flag_and_the_last_flag_wins() -> None:
    environment = {
        "TSNAMESERVER_LISTEN": ":53, [::1]:54",
        "TSNAMESERVER_TTL": "7",
        "TSNAMESERVER_ZONE": "ts.net,example.org",
    }
    settings = read_settings(["--ttl", "8", "--ttl", "9"], environment)
    assert settings.listen == (Endpoint("", 53), Endpoint("::1", 54))
    assert settings.zone.origins == ("ts.net", "example.org")
    assert settings.zone.ttl == 9


class Wrong(NamedTuple):
    name: str
    value: str


WRONG = [
    Wrong("listen", "53"),
    Wrong("listen", "127.0.0.1"),
    Wrong("listen", "localhost:53"),
    Wrong("listen", "::1:53"),
    Wrong("listen", "[]:53"),
    Wrong("listen", "[127.0.0.1]:53"),
    Wrong("listen", ":65536"),
    Wrong("listen", ":\u0665"),
    Wrong("listen", ""),
    Wrong("zone", "a..b"),
    Wrong("zone", "."),
    Wrong("zone", ".".join(["a" * 60] * 4)),
    Wrong("ttl", "-1"),
    Wrong("ttl", "2147483648"),
    Wrong("ttl", "soon"),
    Wrong("ns-name", "x" * 64),
    Wrong("nsid", "x" * 256),
    Wrong("health", "9002"),
    Wrong("records", ""),
    Wrong("snapshot", "/"),
    Wrong("api-server", "192.0.2.1"),
    Wrong("drain", "1m"),
    Wrong("log-level", "loud"),
    Wrong("log-format", "xml"),
    Wrong("udp-loop", "c"),
    Wrong("log-queries", "1000"),
    Wrong("log-queries", "2/1000"),
    Wrong("log-queries", "1/0"),
    Wrong("log-queries", "1/\u0661"),
    Wrong("log-queries", "1/1000000000"),
    Wrong("metrics", "9153"),
]


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_a_wrong_value_names_the_flag_or_variable(case: Wrong) -> None:
    with pytest.raises(SettingsError, match=f"^--{case.name}: "):
        read_settings([f"--{case.name}={case.value}"], {})
    variable = f"TSNAMESERVER_{case.name.replace('-', '_').upper()}"
    with pytest.raises(SettingsError, match=f"^{variable}: ") as error:
        read_settings([], {variable: case.value})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("arguments", [["--nope"], ["--ttl"], ["stray"], ["--rec", "x"]])
def test_an_unknown_or_half_flag_is_one_line(arguments: list[str]) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings(arguments, {})
    assert "\n" not in str(error.value)


def test_in_a_pod_the_clusters_api_server_is_followed(service_account: Path) -> None:
    arguments = ["--service-account", str(service_account)]
    expected = ApiSettings("https://192.0.2.1:443", "tailscale", service_account)
    assert read_settings(arguments, IN_CLUSTER).api == expected
    environment = {**IN_CLUSTER, "KUBERNETES_SERVICE_HOST": "2001:db8::1"}
    api = read_settings([*arguments, "--namespace", "other"], environment).api
    assert api == ApiSettings("https://[2001:db8::1]:443", "other", service_account)


def test_without_a_token_or_by_wish_no_api_server_is_followed(service_account: Path, tmp_path: Path) -> None:
    assert read_settings(["--service-account", str(tmp_path / "none")], IN_CLUSTER).api is None
    assert read_settings(["--service-account", str(service_account)], {}).api is None
    assert read_settings(["--service-account", str(service_account), "--api-server", ""], IN_CLUSTER).api is None


def test_an_api_server_needs_a_namespace(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^--namespace"):
        read_settings(["--api-server", "http://127.0.0.1:1", "--service-account", str(tmp_path)], {})


def test_a_misspelt_variable_is_told_with_the_right_one() -> None:
    given = ["TSNAMESERVER_ZONE", "TSNAMESERVER_ZONES", "TSNAMESERVER_PORT_53_UDP", "TSNAMESERVE_ZONE", "HOME"]
    assert [*misspelt(given)] == ["TSNAMESERVER_ZONES is no setting and is not read: do you mean TSNAMESERVER_ZONE?"]


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        read_settings(["--help"], {})
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    for text in ("--listen", "--zone", "TSNAMESERVER_NS_NAME", "(default: 5)", "/config/records.json", ":9153"):
        assert text in shown
