"""The settings of the API server proxy, and the error messages about wrong settings."""

import dataclasses
from pathlib import Path

import pytest
from tsoperator.apiproxy.impersonation import AccessMode
from tsoperator.apiproxy.settings import PROXY_VARIABLES, InvalidProxySetting, ProxySettings, read_proxy_settings

GIVEN = {"APISERVER_PROXY": "true", "POD_IP": "10.0.0.7", "KUBERNETES_SERVICE_HOST": "10.96.0.1"}
LEAST = ProxySettings(AccessMode.AUTH, "10.0.0.7", "10.96.0.1")


def test_settings_without_an_environment_variable_have_defaults() -> None:
    assert read_proxy_settings(GIVEN) == LEAST
    assert read_proxy_settings({**GIVEN, "APISERVER_PROXY_HTTP": "", "OPERATOR_LOGGING": " "}) == LEAST


SET: dict[str, list[tuple[str, dict[str, object]]]] = {
    "APISERVER_PROXY": [("noauth", {"mode": AccessMode.NOAUTH})],
    "APISERVER_PROXY_HTTP": [("true", {"http": True}), ("false", {})],
    "TS_SOCKET": [("/run/ts.sock", {"socket": Path("/run/ts.sock")})],
    "POD_IP": [("fd00::7", {"pod_ip": "fd00::7"})],
    "KUBERNETES_SERVICE_HOST": [
        ("fd00:96::1", {"api_host": "fd00:96::1"}),
        ("api.example.org", {"api_host": "api.example.org"}),
    ],
    "KUBERNETES_SERVICE_PORT": [("6443", {"api_port": 6443})],
    "OPERATOR_LOGGING": [("debug", {"log_level": "DEBUG"}), ("warn", {"log_level": "WARNING"})],
    "OPERATOR_LOG_FORMAT": [("json", {"log_format": "json"})],
}
ROWS = [(name, value, changed) for name, rows in SET.items() for value, changed in rows]


@pytest.mark.parametrize(("name", "value", "changed"), ROWS)
def test_each_environment_variable_sets_its_setting_of_the_api_server_proxy(
    name: str, value: str, changed: dict[str, object]
) -> None:
    assert read_proxy_settings({**GIVEN, name: value}) == dataclasses.replace(LEAST, **changed)  # type: ignore[arg-type]


def test_the_log_level_dev_of_the_go_operator_means_debug_in_text_format() -> None:
    settings = read_proxy_settings({**GIVEN, "OPERATOR_LOGGING": "dev", "OPERATOR_LOG_FORMAT": "json"})
    assert (settings.log_level, settings.log_format) == ("DEBUG", "text")


def test_every_environment_variable_of_the_api_server_proxy_is_in_the_table_of_the_tests() -> None:
    assert PROXY_VARIABLES.keys() == SET.keys()


WRONG = [
    ("APISERVER_PROXY", "", "'' is not true or noauth"),
    ("APISERVER_PROXY", "false", "'false' is not true or noauth"),
    ("APISERVER_PROXY_HTTP", "yes", "'yes' is not true or false"),
    ("POD_IP", "", "'' is not an IP address"),
    ("POD_IP", "pod", "'pod' is not an IP address"),
    ("KUBERNETES_SERVICE_HOST", "", "'' is neither an IP address nor a name"),
    ("KUBERNETES_SERVICE_HOST", "http://api", "'http://api' is neither an IP address nor a name"),
    ("KUBERNETES_SERVICE_PORT", "0", "'0' is not a port"),
    ("KUBERNETES_SERVICE_PORT", "tcp://10.96.0.1:443", "'tcp://10.96.0.1:443' is not a port"),
    ("OPERATOR_LOGGING", "loud", "'loud' is not info or debug or dev or warn or error"),
    ("OPERATOR_LOG_FORMAT", "xml", "'xml' is not text or json"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_the_error_for_a_wrong_value_names_the_environment_variable(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidProxySetting) as caught:
        read_proxy_settings({**GIVEN, name: value})
    assert str(caught.value) == f"{name}: {words}"
