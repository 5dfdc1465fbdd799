"""The proxy's Secret: its slim form, its auth key, its device and its config."""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from clustersim.x509 import certificate, moment
from tsoperator.api.objects import Key, Object, key_of
from tsoperator.proxy.entries import ProxyReport
from tsoperator.proxy.hosting import HostReport
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import (
    TLS,
    Certificate,
    Reissue,
    ReportedDevice,
    advertised_services,
    auth_key_of,
    certificate_of,
    config_for_now,
    config_patch,
    device_id_of,
    device_of,
    egress_report_of,
    host_report_of,
    login_url_of,
    must_keep_auth_key,
    needs_auth_key,
    reissue_of,
    slim,
)
from tsoperator.proxy.tailscaled import ProxyConfig, config_files
from tsoperator.proxy.x509 import Validity
from tsoperator.runtime.ownership import Owner
from tsoperator.runtime.plan import Patch

from tests.support.objects import pod, slim_secret, texts, whole_secret

CONFIG = ProxyConfig("default-db", "https://controlplane.tailscale.com")
RENAMED = ProxyConfig("other", "https://controlplane.tailscale.com")
SERVING = ProxyConfig("default-db", "https://controlplane.tailscale.com", {"TCP": {}})
NAME = "ts-db-abcde-0"
LOGGED_IN = {"device_id": "n1"}
ASKING = {**LOGGED_IN, "reissue_authkey": "refused"}
"""The data in the Secret of a proxy that asks for another auth key, because its key was refused."""
PROFILE = {"_current-profile": "profile-1", "profile-1": '{"Config":{"NodeID":"n7"}}'}
FQDN = {"device_fqdn": "db.tail1234.ts.net."}

STARTS = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VALIDITY = Validity(STARTS, STARTS + timedelta(days=90))
CERTIFICATE = certificate(moment(VALIDITY.starts), moment(VALIDITY.ends))


def secret(config: ProxyConfig = CONFIG, /, auth_key: str = "", **data: str) -> Object:
    return slim_secret(NAME, {**config_files(config, auth_key), **data})


def whole(config: ProxyConfig = CONFIG, /, auth_key: str = "", **data: str) -> ReplicaSecrets:
    """Return the Secrets of a standalone proxy: one Secret for the *config* with *auth_key* and the state *data*."""
    return ReplicaSecrets(found := secret(config, auth_key, **data), found)


def apart(auth_key: str = "", **state: str) -> ReplicaSecrets:
    """Return the two Secrets of a replica: one with its *state*, and one with its config, which has the *auth_key*."""
    config = slim_secret("egress-0-config", config_files(CONFIG, auth_key))
    return ReplicaSecrets(config, slim_secret("egress-0", state))


def patch_for(secrets: ReplicaSecrets, config: ProxyConfig, auth_key: str = "") -> Patch:
    patch = config_patch(secrets, config, auth_key)
    assert patch is not None
    return patch


@pytest.mark.parametrize(
    ("data", "is_there"),
    [
        ({"tls.crt": CERTIFICATE, "tls.key": "key"}, True),
        ({"tls.crt": "", "tls.key": ""}, False),
        ({"tls.crt": CERTIFICATE, "tls.key": ""}, False),
        ({"tls.crt": "", "tls.key": "key"}, False),
    ],
)
def test_a_secret_has_a_certificate_once_both_of_its_keys_for_the_certificate_are_filled(
    data: dict[str, str], is_there: bool
) -> None:
    assert certificate_of(slim_secret("web.tail1234.ts.net", data), TLS).is_there is is_there


def test_a_slim_secret_has_the_tailscale_services_of_a_proxy_and_its_report() -> None:
    profile = {"_current-profile": "p", "p": '{"AdvertiseServices":["svc:web",7]}'}
    report = {"ingress-config.json": '{"podIPv4":"10.1.0.7"}'}
    config = {"cap-106.hujson": '{"AdvertiseServices":["svc:web","svc:api"]}'}
    state = slim_secret("ing-0", {**profile, **report})
    assert advertised_services(slim_secret("ing-0-config", config)) == ("svc:web", "svc:api")
    assert (advertised_services(state), host_report_of(state)) == (("svc:web",), HostReport("10.1.0.7"))
    assert (advertised_services(secret()), host_report_of(secret())) == ((), None)


def test_a_slim_secret_contains_neither_keys_nor_configs() -> None:
    state = {"_machinekey": "state", "device_id": "n1", "pod_uid": "p", **config_files(CONFIG, "new-authkey")}
    state["reissue_authkey"] = "old-authkey"
    whole = whole_secret(NAME, state)
    whole["metadata"]["managedFields"] = [{"manager": "x"}]
    kept = slim(whole)
    assert texts(kept) == {"device_id": "n1", "pod_uid": "p"}
    assert "managedFields" not in kept["metadata"]
    assert whole["data"]["cap-107.hujson"] not in json.dumps(kept)
    assert not [key for key in ("new-authkey", "old-authkey", "reissue_authkey") if key in json.dumps(kept)]


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"cap-95.hujson": {"AuthKey": "old"}, "cap-107.hujson": {"AuthKey": "new"}}, "new"),
        ({"cap-95.hujson": {"AuthKey": "old"}, "cap-107.hujson": {}}, ""),
        ({"cap-120.hujson": {"AuthKey": "newest"}, "cap-107.hujson": {"AuthKey": "new"}}, "newest"),
        ({"cap-107.hujson": "not JSON"}, ""),
        ({"cap-107.hujson": "[]"}, ""),
        ({"cap-107.hujson": {"AuthKey": 7}}, ""),
        ({"tailscaled": {"AuthKey": "legacy"}}, ""),
        ({"authkey": "of-a-recorder"}, "of-a-recorder"),
        ({"authkey": "leftover", "cap-107.hujson": {}}, ""),
        ({}, ""),
    ],
)
def test_the_auth_key_is_that_of_the_newest_config(data: dict[str, str | Object], key: str) -> None:
    assert auth_key_of(whole_secret(NAME, data)) == key


@pytest.mark.parametrize("data", [{}, {"cap-107.hujson": "%"}, {"authkey": b64encode(b"\xff").decode()}])
def test_a_secret_without_data_or_with_broken_data_has_no_auth_key(data: dict[str, str]) -> None:
    assert auth_key_of({"data": data} if data else {}) == ""


@pytest.mark.parametrize("secrets_of", [whole, apart])
def test_a_request_for_an_auth_key_is_answered_once_the_config_has_another_key_than_the_refused_one(
    secrets_of: Callable[..., ReplicaSecrets],
) -> None:
    def answer(auth_key: str, **asking: str) -> Reissue:
        return reissue_of(secrets_of(auth_key=auth_key, **LOGGED_IN, **asking))

    assert {answer(auth_key) for auth_key in ("", "unused")} == {Reissue.NOT_ASKED}
    asked = [("", ""), ("", "refused"), ("", "no-authkey"), ("refused", "refused")]
    assert {answer(auth_key, reissue_authkey=refused) for auth_key, refused in asked} == {Reissue.ASKED}
    answered = [("new", "refused"), ("new", ""), ("new", "no-authkey")]
    assert {answer(auth_key, reissue_authkey=refused) for auth_key, refused in answered} == {Reissue.ANSWERED}


class Known(NamedTuple):
    secrets: ReplicaSecrets
    device: str = ""
    needs: bool = False
    keeps: bool = False
    """True if a write of another config would lose the key in the present config."""
    reissue: Reissue = Reissue.NOT_ASKED


KNOWN = {
    "new": Known(whole(), needs=True),
    "an empty device": Known(whole(device_id=""), needs=True),
    "a key": Known(whole(auth_key="unused"), keeps=True),
    "logged in": Known(whole(**LOGGED_IN), "n1"),
    "just logged in": Known(whole(auth_key="used", **LOGGED_IN), "n1"),
    "not reported": Known(whole(**PROFILE), "n7"),
    "a new key for the refused": Known(whole(auth_key="new", **ASKING), "n1", keeps=True, reissue=Reissue.ANSWERED),
    "apart: none": Known(ReplicaSecrets(), needs=True),
    "apart: no state": Known(ReplicaSecrets(apart().config), needs=True),
    "apart: no state, a key": Known(ReplicaSecrets(apart("unused").config), keeps=True),
    "apart: no key": Known(apart(), needs=True),
    "apart: a key": Known(apart("unused"), keeps=True),
    "apart: logged in": Known(apart(**LOGGED_IN), "n1"),
    "apart: just logged in": Known(apart("used", **LOGGED_IN), "n1"),
    "apart: not reported": Known(apart("used", **PROFILE), "n7", keeps=True),
    "apart: no config": Known(ReplicaSecrets(None, apart(**LOGGED_IN).state), "n1"),
    "apart: refused": Known(apart("refused", **ASKING), "n1", keeps=True, reissue=Reissue.ASKED),
    "apart: a new key": Known(apart("new", **ASKING), "n1", keeps=True, reissue=Reissue.ANSWERED),
    "apart: refused, no config": Known(ReplicaSecrets(None, apart(**ASKING).state), "n1", reissue=Reissue.ASKED),
    "apart: in the wrong place": Known(ReplicaSecrets(secret(**ASKING), apart().state), needs=True),
}


@pytest.mark.parametrize("case", KNOWN.values(), ids=KNOWN)
def test_the_secrets_of_a_replica_show_its_device_and_whether_it_needs_keeps_or_asks_for_an_auth_key(
    case: Known,
) -> None:
    assert device_id_of(case.secrets) == case.device
    assert needs_auth_key(case.secrets) is case.needs
    assert must_keep_auth_key(case.secrets, RENAMED) is case.keeps
    assert must_keep_auth_key(case.secrets, SERVING) is case.keeps
    assert not must_keep_auth_key(case.secrets, CONFIG)
    assert reissue_of(case.secrets) is case.reissue


BROKEN = slim_secret(NAME, {**config_files(CONFIG), "cap-107.hujson": "not JSON", **LOGGED_IN})
WRITTEN = {
    "a lost key": (whole(), CONFIG, "new", config_files(CONFIG, "new")),
    "renamed before the login": (whole(auth_key="unused"), RENAMED, "unused", config_files(RENAMED, "unused")),
    "logged in": (whole(auth_key="used", **LOGGED_IN), CONFIG, "", config_files(CONFIG)),
    "a key too late": (whole(**LOGGED_IN), CONFIG, "late", config_files(CONFIG)),
    "serves": (whole(**LOGGED_IN), SERVING, "", config_files(SERVING)),
    "unreadable": (ReplicaSecrets(BROKEN, BROKEN), CONFIG, "", config_files(CONFIG)),
    "asked, no key": (whole(**ASKING), CONFIG, "new", config_files(CONFIG, "new")),
    "asked": (whole(auth_key="refused", **ASKING), CONFIG, "new", config_files(CONFIG, "new")),
    "a new key, renamed": (whole(auth_key="new", **ASKING), RENAMED, "new", config_files(RENAMED, "new")),
    "apart: renamed": (apart("unused"), RENAMED, "unused", config_files(RENAMED, "unused")),
    "apart: a key too late": (apart(**LOGGED_IN), RENAMED, "late", config_files(RENAMED)),
    "apart: logged in": (apart("used", **LOGGED_IN), CONFIG, "", config_files(CONFIG)),
    "apart: asked": (apart("refused", **ASKING), CONFIG, "new", config_files(CONFIG, "new")),
    "apart: no state": (ReplicaSecrets(apart().config), CONFIG, "new", config_files(CONFIG, "new")),
}


@pytest.mark.parametrize(("secrets", "config", "auth_key", "files"), WRITTEN.values(), ids=WRITTEN)
def test_a_config_patch_has_the_auth_key_only_until_the_proxy_has_logged_in(
    secrets: ReplicaSecrets, config: ProxyConfig, auth_key: str, files: dict[str, str]
) -> None:
    patch = patch_for(secrets, config, auth_key)
    assert secrets.config is not None
    assert (patch.key, texts(patch.body)) == (key_of(secrets.config), files)


REORDERED: dict[str, str | Object] = {
    name: dict(reversed(json.loads(text).items())) for name, text in config_files(CONFIG).items()
}


@pytest.mark.parametrize(
    "secrets",
    [
        whole(),
        whole(auth_key="unused"),
        whole(auth_key="refused", **ASKING),
        whole(auth_key="new", **ASKING),
        whole(authkey="leftover", **LOGGED_IN),
        ReplicaSecrets(slim_secret(NAME, REORDERED)),
        apart("unused"),
        apart("unused", **PROFILE),
        apart(**LOGGED_IN),
        apart("new", **ASKING),
        ReplicaSecrets(apart("unused").config),
        ReplicaSecrets(None, apart(**LOGGED_IN).state),
    ],
)
def test_there_is_no_patch_if_the_config_is_right_or_the_config_secret_is_missing(
    secrets: ReplicaSecrets,
) -> None:
    assert config_patch(secrets, CONFIG, "") is None


NEWER = slim_secret(NAME, {**config_files(CONFIG), "cap-120.hujson": {"Hostname": "old"}, **LOGGED_IN})
SERVED = {"_serve_1234": "{}", "_machinekey": "state"}


@pytest.mark.parametrize(
    ("secrets", "config", "fields"),
    [
        (whole(**LOGGED_IN), RENAMED, {"serve-config"}),
        (whole(SERVING, **LOGGED_IN), CONFIG, {"serve-config"}),
        (whole(SERVING, **LOGGED_IN, **SERVED), CONFIG, {"serve-config", "_serve_1234"}),
        (ReplicaSecrets(NEWER, NEWER), RENAMED, {"serve-config", "cap-120.hujson"}),
    ],
)
def test_a_patch_removes_unwanted_configs_and_changes_nothing_else(
    secrets: ReplicaSecrets, config: ProxyConfig, fields: set[str]
) -> None:
    body = patch_for(secrets, config).body
    assert set(body) == {"data"}
    assert {name for name, value in body["data"].items() if value is None} == fields
    assert body["data"].keys() - fields == {"cap-107.hujson", "cap-95.hujson"}


def test_the_log_shows_a_changed_config_but_not_an_added_or_removed_auth_key() -> None:
    changed, renamed = whole(**LOGGED_IN), patch_for(whole(SERVING, **LOGGED_IN), RENAMED)
    assert patch_for(changed, RENAMED).about == renamed.about == "the configuration of the proxy"
    assert patch_for(whole(auth_key="used", **LOGGED_IN), CONFIG).about == ""
    assert patch_for(whole(), CONFIG, "new-authkey").about == ""


def test_a_stored_serve_config_is_removed_from_the_secret_of_a_proxy_that_serves_nothing() -> None:
    assert patch_for(whole(auth_key="unused", **SERVED), CONFIG).body == {"data": {"_serve_1234": None}}
    assert config_patch(whole(SERVING, **LOGGED_IN, **SERVED), SERVING, "") is None


def profile(routes: list[str] | None, *, app_connector: bool) -> dict[str, str]:
    kept = {"AdvertiseRoutes": routes, "AppConnector": {"Advertise": app_connector}}
    return {"_current-profile": "profile-1", "profile-1": json.dumps(kept)}


APPS = replace(CONFIG, routes=(), app_connector=True)
LEFT_OUT = replace(CONFIG, routes=None, app_connector=True)
LOSING = replace(CONFIG, routes=(), app_connector=False)
ROUTER = replace(CONFIG, routes=("192.0.2.0/24",))
NAMED = replace(APPS, routes=("192.0.2.0/24",))
OFFERS_NONE = profile(None, app_connector=False)


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (ReplicaSecrets(None, None), LEFT_OUT),
        (whole(LEFT_OUT), LEFT_OUT),
        (whole(LEFT_OUT, **profile(["198.51.100.1/32"], app_connector=True)), LEFT_OUT),
        (whole(APPS, **profile(["198.51.100.1/32"], app_connector=True)), LEFT_OUT),
        (whole(ROUTER), LOSING),
        (whole(ROUTER, **profile(["192.0.2.0/24"], app_connector=False)), LOSING),
        (whole(LOSING), LOSING),
        (ReplicaSecrets(secret(ROUTER), None), LOSING),
        (whole(LOSING, **profile(["192.0.2.0/24"], app_connector=False)), LOSING),
        (whole(NAMED, **profile(["192.0.2.0/24"], app_connector=True)), LOSING),
        (whole(NAMED, **profile([], app_connector=True)), LOSING),
        (whole(LOSING, **OFFERS_NONE), LEFT_OUT),
        (whole(LOSING, **profile([], app_connector=False)), LEFT_OUT),
        (ReplicaSecrets(secret(LOSING, **OFFERS_NONE), None), LEFT_OUT),
        (whole(LOSING, **{"_current-profile": "profile-1", "profile-1": '{"AppConnector":"yes"}'}), LEFT_OUT),
    ],
)
def test_an_app_connector_keeps_learned_routes_when_its_config_loses_routes(
    there: ReplicaSecrets, wanted: ProxyConfig
) -> None:
    assert config_for_now(APPS, there) == wanted
    assert [config_for_now(each, there) for each in (CONFIG, ROUTER, NAMED, LOSING)] == [CONFIG, ROUTER, NAMED, LOSING]


AT_110 = {"tailscale_capver": "110", "pod_uid": "P"}


@pytest.mark.parametrize(
    ("data", "https_name", "serves_no_https"),
    [
        ({}, "db.tail1234.ts.net", False),
        ({"tailscale_capver": "108", "pod_uid": "P"}, "db.tail1234.ts.net", False),
        ({"tailscale_capver": "109", "pod_uid": "P"}, "", False),
        ({**AT_110, "https_endpoint": "db.example.org."}, "db.example.org", False),
        ({**AT_110, "pod_uid": "p", "https_endpoint": "x.example.org"}, "x.example.org", False),
        ({**AT_110, "https_endpoint": "No-HTTPS"}, "", True),
        ({**AT_110, "pod_uid": "other", "https_endpoint": "no-https"}, "db.tail1234.ts.net", False),
        ({"tailscale_capver": "110", "https_endpoint": "no-https"}, "db.tail1234.ts.net", False),
        ({**AT_110, "tailscale_capver": "new", "https_endpoint": "no-https"}, "db.tail1234.ts.net", False),
        ({**AT_110, "tailscale_capver": "²", "https_endpoint": "no-https"}, "db.tail1234.ts.net", False),
    ],
)
def test_the_https_name_of_a_device_is_the_name_that_the_running_pod_reports(
    data: dict[str, str], https_name: str, *, serves_no_https: bool
) -> None:
    device = device_of(slim_secret(NAME, {**LOGGED_IN, **FQDN, **data}), pod(NAME, "P"))
    assert (device.id, device.fqdn) == ("n1", "db.tail1234.ts.net")
    assert (device.https_name, device.serves_no_https) == (https_name, serves_no_https)


@pytest.mark.parametrize(
    ("profile", "content", "device"),
    [
        ("profile-1", '{"Config":{"NodeID":"n7"}}', "n7"),
        ("profile-2", '{"Config":{"NodeID":"n7"}}', ""),
        ("profile-1", '{"Config":null}', ""),
        ("profile-1", '{"Config":{"NodeID":7}}', ""),
        ("profile-1", "nonsense", ""),
    ],
)
def test_the_device_of_a_proxy_that_was_stopped_before_its_report_is_read_from_tailscaleds_state(
    profile: str, content: str, device: str
) -> None:
    state = {"_current-profile": "profile-1", profile: content}
    assert device_of(slim_secret(NAME, state), None).id == device
    assert device_of(slim_secret(NAME, {**state, **LOGGED_IN}), None).id == "n1"


RECORDER = Owner("recorder", Key("", "rec")).labels


@pytest.mark.parametrize(
    ("labels", "login_name", "fqdn", "url"),
    [
        (RECORDER, "rec-0.tail1234.ts.net", "rec-0.tail1234.ts.net", "https://control.example.org"),
        (RECORDER, "tagged-devices", "", "https://control.example.org"),
        (RECORDER, "alice@example.org", "", "https://control.example.org"),
        ({}, "rec-0.tail1234.ts.net", "", ""),
    ],
)
def test_the_state_of_a_recorder_has_the_name_of_its_device_and_the_control_server(
    labels: dict[str, str], login_name: str, fqdn: str, url: str
) -> None:
    profile = {"ControlURL": "https://control.example.org/", "Config": {"UserProfile": {"LoginName": login_name}}}
    found = slim_secret(NAME, {"_current-profile": "profile-1", "profile-1": profile}, labels)
    assert (device_of(found, None).fqdn, login_url_of(found)) == (fqdn, url)


def test_without_a_report_a_device_has_no_https_name_and_without_a_pod_its_https_name_is_its_magicdns_name() -> None:
    assert device_of(secret(), pod(NAME, "P")) == ReportedDevice("", "", "", False)
    data = {**LOGGED_IN, **FQDN, **AT_110, "https_endpoint": "no-https"}
    assert device_of(slim_secret(NAME, data), None).https_name == "db.tail1234.ts.net"


@pytest.mark.parametrize(
    ("reported", "ips"),
    [
        ('["100.64.0.1","fd7a:115c:a1e0::1"]', ("100.64.0.1", "fd7a:115c:a1e0::1")),
        ("[]", ()),
        ("null", ()),
        ('[1, "100.64.0.1"]', ("100.64.0.1",)),
        ("nonsense", ()),
        ("", ()),
    ],
)
def test_the_addresses_of_a_device_are_those_that_its_proxy_reports(reported: str, ips: tuple[str, ...]) -> None:
    assert device_of(slim_secret(NAME, {**LOGGED_IN, "device_ips": reported}), None).ips == ips
    newer = {**LOGGED_IN, **AT_110, "device_ips": reported}
    assert device_of(slim_secret(NAME, newer), pod(NAME, "P")).ips == ips


CERT, KEY, ACCOUNT = {"web.crt": CERTIFICATE}, {"web.key": "secret"}, {"acme-account.key.pem": "secret"}


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ({}, Certificate(is_there=False)),
        (CERT, Certificate(is_there=False)),
        (KEY, Certificate(is_there=False)),
        ({"web.crt": "?", **KEY}, Certificate(is_there=True)),
        (CERT | KEY, Certificate(True, VALIDITY)),
        (ACCOUNT, Certificate(is_there=False, asked=True)),
        ({**ACCOUNT, "old.crt": CERTIFICATE, "old.key": "secret"}, Certificate(is_there=False)),
    ],
)
def test_a_slim_secret_has_the_validity_of_a_certificate_and_not_its_key(
    data: dict[str, str | Object], wanted: Certificate
) -> None:
    kept = slim(whole_secret("ts-web-abcde-0", data))
    assert (certificate_of(kept, "web"), kept["data"]) == (wanted, {})


def test_a_slim_secret_has_the_egress_report_of_a_proxy() -> None:
    said: list[Object] = [{}, {"egress-services": "{"}, {"egress-services": {"podIPv4": "192.0.2.1"}}]
    reports = [egress_report_of(slim(whole_secret("foo-0", data))) for data in said]
    assert reports == [None, None, ProxyReport("192.0.2.1")]
