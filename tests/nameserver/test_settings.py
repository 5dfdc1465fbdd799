"""Tests of the nameserver's flags and environment variables."""

import logging
from pathlib import Path

import pytest
from tsnameserver import __version__
from tsnameserver.compiled import COMPILED
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


def test_the_default_settings_fit_the_deployment_that_the_go_operator_makes() -> None:
    settings = read_settings([], {"HOSTNAME": "nameserver-5c9f"})
    assert (settings.records, settings.snapshot) == (Path("/config/records.json"), None)
    assert settings.listen == (Endpoint("", 1053),)
    assert settings.zone == ZoneSettings(("ts.net",), 5, "nameserver.tailscale.svc.cluster.local.", "nameserver-5c9f")
    assert (settings.health, settings.metrics) == (Endpoint("", 9002), Endpoint("", 9153))
    assert (settings.api, settings.drain, settings.log_level, settings.log_format) == (None, 0, logging.INFO, "text")


def test_the_flags_of_the_nameserver_are_parsed() -> None:
    words = ["--records=r.json", "--listen=127.0.0.1:53", "--listen=[::1]:53", "--zone=ts.example.org", "--nsid=first"]
    words += ["--snapshot=s", "--ttl=0", "--ns-name=ns.example.org", "--health=", "--drain=3", "--metrics=:1"]
    words += ["--log-level=warning", "--log-format=json"]
    settings = read_settings(words, {"HOSTNAME": "another"})
    assert (settings.records, settings.snapshot) == (Path("r.json"), Path("s"))
    assert settings.listen == (Endpoint("127.0.0.1", 53), Endpoint("::1", 53))
    assert settings.zone == ZoneSettings(("ts.example.org",), 0, "ns.example.org", "first")
    assert (settings.health, settings.metrics, settings.drain) == (None, Endpoint("", 1), 3)
    assert (settings.log_level, settings.log_format, settings.log_queries) == (logging.WARNING, "json", 0)


def test_the_share_of_logged_queries_is_parsed() -> None:
    shares = [read_settings([f"--log-queries={text}"], {}).log_queries for text in ("", "1/1", "1/999999999")]
    assert shares == [0, 1, 999_999_999]


def test_a_variable_works_like_its_flag_and_the_last_value_of_a_repeated_flag_counts() -> None:
    listen, zone = {"TSNAMESERVER_LISTEN": ":53, [::1]:54"}, {"TSNAMESERVER_ZONE": "ts.net,example.org"}
    given = {**listen, **zone, "TSNAMESERVER_TTL": "7", "TSNAMESERVER_METRICS": ""}
    settings = read_settings(["--ttl", "8", "--ttl", "9"], given)
    assert (settings.listen, settings.metrics) == ((Endpoint("", 53), Endpoint("::1", 54)), None)
    assert (settings.zone.origins, settings.zone.ttl) == (("ts.net", "example.org"), 9)


WRONG = {
    "listen": ["53", "127.0.0.1", "localhost:53", "::1:53", "[]:53", "[127.0.0.1]:53", ":65536", ":\u0665", ""],
    "zone": ["a..b", ".", ".".join(["a" * 60] * 4)],
    "ttl": ["-1", "2147483648", "soon"],
    "ns-name": ["x" * 64],
    "nsid": ["x" * 201],
    "health": ["9002"],
    "records": [""],
    "snapshot": ["/"],
    "api-server": ["192.0.2.1"],
    "drain": ["1m"],
    "log-level": ["loud"],
    "log-format": ["xml"],
    "udp-loop": ["c"],
    "log-queries": ["1000", "2/1000", "1/0", "1/\u0661", "1/1000000000"],
    "metrics": ["9153"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_the_error_about_a_wrong_setting_names_its_flag_or_variable(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^--{name}: "):
        read_settings([f"--{name}={value}"], {})
    variable = f"TSNAMESERVER_{name.replace('-', '_').upper()}"
    with pytest.raises(SettingsError, match=rf"^{variable}: .*\Z"):
        read_settings([], {variable: value})


@pytest.mark.parametrize("arguments", [["--nope"], ["--ttl"], ["stray"], ["--rec", "x"]])
def test_the_error_about_an_unknown_or_incomplete_flag_of_the_nameserver_has_one_line(arguments: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"\A.*\Z"):
        read_settings(arguments, {})


def test_by_default_a_nameserver_in_a_pod_reads_its_records_from_the_api_server_of_its_cluster(
    service_account: Path,
) -> None:
    word = f"--service-account={service_account}"
    assert read_settings([word], IN_CLUSTER).api == ApiSettings("https://192.0.2.1:443", "tailscale", service_account)
    api = read_settings([word, "--namespace=other"], {**IN_CLUSTER, "KUBERNETES_SERVICE_HOST": "2001:db8::1"}).api
    assert api == ApiSettings("https://[2001:db8::1]:443", "other", service_account)


def test_the_nameserver_uses_no_api_server_without_a_token_or_without_a_url(
    service_account: Path,
) -> None:
    word = f"--service-account={service_account}"
    assert read_settings([f"{word}/none"], IN_CLUSTER).api is None
    assert read_settings([word], {}).api is None
    assert read_settings([word, "--api-server="], IN_CLUSTER).api is None


def test_a_setting_with_the_url_of_an_api_server_requires_a_namespace(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^--namespace"):
        read_settings(["--api-server", "http://127.0.0.1:1", "--service-account", str(tmp_path)], {})


def test_the_warning_about_a_misspelt_variable_names_the_right_variable() -> None:
    given = ["TSNAMESERVER_ZONE", "TSNAMESERVER_ZONES", "TSNAMESERVER_PORT_53_UDP", "TSNAMESERVE_ZONE", "HOME"]
    assert [*misspelt(given)] == ["TSNAMESERVER_ZONES is no setting and is not read: do you mean TSNAMESERVER_ZONE?"]


LOOP = "compiled UDP loop" if COMPILED else "UDP loop in Python: the compiled one was not built"
TOLD = {
    "--version": [f"tsnameserver {__version__} ({LOOP})\n"],
    "--help": ["--listen", "--zone", "TSNAMESERVER_NS_NAME", "(default: 5)", "/config/records.json", ":9153"],
}


@pytest.mark.parametrize(("flag", "told"), TOLD.items(), ids=TOLD)
def test_the_nameserver_prints_its_version_and_its_help_on_request(
    flag: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        read_settings([flag], {})
    shown = capsys.readouterr().out
    assert (end.value.code, [text for text in told if text not in shown]) == (0, [])
