"""The proxy's Secret: what is kept of it, its auth key, its device, its config."""

import json
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from tsoperator.api.objects import Key, Object
from tsoperator.desired.children import Owner
from tsoperator.desired.plan import Patch
from tsoperator.desired.replica import ReplicaSecrets
from tsoperator.desired.secret import (
    Certificate,
    Reissue,
    auth_key_of,
    certificate_of,
    config_patch,
    device_id_of,
    device_of,
    must_keep_auth_key,
    needs_auth_key,
    proxy_secret,
    reissue_of,
    slim,
)
from tsoperator.desired.tailscaled import ProxyConfig, config_files
from tsoperator.desired.x509 import Validity

from tests.support.certificates import certificate, moment
from tests.support.objects import pod, slim_secret, texts, whole_secret

CONFIG = ProxyConfig("default-db", "https://controlplane.tailscale.com")
RENAMED = ProxyConfig("other", "https://controlplane.tailscale.com")
SERVING = ProxyConfig("default-db", "https://controlplane.tailscale.com", {"TCP": {}})
NAME = "ts-db-abcde-0"
LOGGED_IN = {"device_id": "n1"}
PROFILE = {"_current-profile": "profile-1", "profile-1": '{"Config":{"NodeID":"n7"}}'}
FQDN = {"device_fqdn": "db.tail1234.ts.net."}

STARTS = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VALIDITY = Validity(STARTS, STARTS + timedelta(days=90))
CERTIFICATE = certificate(moment(VALIDITY.starts), moment(VALIDITY.ends))


def secret(config: ProxyConfig = CONFIG, auth_key: str = "", **data: str) -> Object:
    """The proxy's Secret as the cache has it."""
    return slim_secret(NAME, {**config_files(config, auth_key), **data})


def asking(auth_key: str) -> Object:
    """The Secret of a proxy whose key was refused and that asks for another; *auth_key* is in its config."""
    return secret(auth_key=auth_key, device_id="n1", reissue_authkey="refused")


def both(found: Object | None) -> ReplicaSecrets:
    """The Secrets of a standalone proxy, which has one for both purposes."""
    return ReplicaSecrets(found, found)


def patched(found: Object, config: ProxyConfig, auth_key: str = "") -> Patch:
    """The patch for a standalone proxy, which must be one."""
    return patched_of(both(found), config, auth_key)


def patched_of(secrets: ReplicaSecrets, config: ProxyConfig, auth_key: str = "") -> Patch:
    """The patch, which must be one."""
    patch = config_patch(secrets, config, auth_key)
    assert patch is not None
    return patch


def test_a_new_proxys_secret_has_its_config_and_key() -> None:
    owner = Owner("svc", Key("default", "db"))
    made = proxy_secret(Key("tailscale", NAME), owner, CONFIG, "new-authkey")
    assert made["metadata"] == {"namespace": "tailscale", "name": NAME, "labels": owner.labels}
    assert made["type"] == "Opaque"
    assert texts(made) == config_files(CONFIG, "new-authkey")


def test_the_cache_keeps_no_secrets() -> None:
    state = {"_machinekey": "state", "device_id": "n1", "pod_uid": "p", **config_files(CONFIG, "new-authkey")}
    state["reissue_authkey"] = "old-authkey"
    whole = whole_secret(NAME, state)
    whole["metadata"]["managedFields"] = [{"manager": "x"}]
    kept = slim(whole)
    assert texts(kept) == {"device_id": "n1", "pod_uid": "p"}
    assert "managedFields" not in kept["metadata"]
    assert whole["data"]["cap-107.hujson"] not in json.dumps(kept)
    assert not [key for key in ("new-authkey", "old-authkey", "reissue_authkey") if key in json.dumps(kept)]


class Keyed(NamedTuple):
    data: dict[str, str | Object]
    key: str


@pytest.mark.parametrize(
    "case",
    [
        Keyed({"cap-95.hujson": {"AuthKey": "old"}, "cap-107.hujson": {"AuthKey": "new"}}, "new"),
        Keyed({"cap-95.hujson": {"AuthKey": "old"}, "cap-107.hujson": {}}, ""),
        Keyed({"cap-120.hujson": {"AuthKey": "newest"}, "cap-107.hujson": {"AuthKey": "new"}}, "newest"),
        Keyed({"cap-107.hujson": "not JSON"}, ""),
        Keyed({"cap-107.hujson": "[]"}, ""),
        Keyed({"cap-107.hujson": {"AuthKey": 7}}, ""),
        Keyed({"tailscaled": {"AuthKey": "legacy"}}, ""),
        Keyed({}, ""),
    ],
)
def test_the_auth_key_is_that_of_the_newest_config(case: Keyed) -> None:
    assert auth_key_of(whole_secret(NAME, case.data)) == case.key


def test_a_secret_without_data_or_with_broken_data_has_no_auth_key() -> None:
    assert auth_key_of({"metadata": {"name": NAME}}) == ""
    assert auth_key_of({"metadata": {"name": NAME}, "data": {"cap-107.hujson": "%"}}) == ""


@pytest.mark.parametrize(
    ("found", "needs"),
    [
        (None, True),
        (secret(), True),
        (secret(device_id=""), True),
        (secret(auth_key="unused"), False),
        (secret(device_id="n1"), False),
        (slim_secret(NAME, {**config_files(CONFIG), **PROFILE}), False),
    ],
)
def test_a_key_is_needed_only_to_log_in_for_the_first_time(found: Object | None, needs: bool) -> None:
    assert needs_auth_key(both(found)) is needs


@pytest.mark.parametrize(
    ("found", "config", "keep"),
    [
        (None, CONFIG, False),
        (secret(auth_key="unused"), CONFIG, False),
        (secret(auth_key="unused"), RENAMED, True),
        (secret(auth_key="unused"), SERVING, True),
        (secret(), RENAMED, False),
        (secret(auth_key="used", device_id="n1"), RENAMED, False),
        (asking("new"), CONFIG, False),
        (asking("new"), RENAMED, True),
    ],
)
def test_the_key_is_read_before_a_write_would_lose_it(found: Object | None, config: ProxyConfig, keep: bool) -> None:
    assert must_keep_auth_key(both(found), config) is keep


class Asks(NamedTuple):
    auth_key: str
    reissue: str | None
    found: Reissue


@pytest.mark.parametrize(
    "case",
    [
        Asks("", None, Reissue.NOT_ASKED),
        Asks("unused", None, Reissue.NOT_ASKED),
        Asks("", "", Reissue.ASKED),
        Asks("", "refused", Reissue.ASKED),
        Asks("", "no-authkey", Reissue.ASKED),
        Asks("refused", "refused", Reissue.ASKED),
        Asks("new", "refused", Reissue.ANSWERED),
        Asks("new", "", Reissue.ANSWERED),
        Asks("new", "no-authkey", Reissue.ANSWERED),
    ],
)
def test_a_request_is_answered_by_another_key_than_was_refused(case: Asks) -> None:
    given = {} if case.reissue is None else {"reissue_authkey": case.reissue}
    found = slim_secret(NAME, {**config_files(CONFIG, case.auth_key), **LOGGED_IN, **given})
    assert reissue_of(both(found)) is case.found


def test_a_secret_that_is_not_there_asks_for_nothing() -> None:
    assert reissue_of(both(None)) is Reissue.NOT_ASKED


@pytest.mark.parametrize("had", ["", "refused"])
def test_a_proxy_that_asks_gets_the_new_key_in_every_config_although_it_has_a_device(had: str) -> None:
    patch = patched(asking(had), CONFIG, "new")
    assert texts(patch.body) == config_files(CONFIG, "new")


def test_the_new_key_stays_until_the_proxy_has_taken_it() -> None:
    assert config_patch(both(asking("new")), CONFIG, "") is None
    assert texts(patched(asking("new"), RENAMED, "new").body) == config_files(RENAMED, "new")
    assert config_patch(both(secret(auth_key="new")), CONFIG, "") is None
    assert texts(patched(secret(auth_key="new", device_id="n2"), CONFIG).body) == config_files(CONFIG)


def test_a_proxy_that_has_to_wait_for_a_key_is_not_written() -> None:
    assert config_patch(both(asking("refused")), CONFIG, "") is None


def apart(auth_key: str = "", **state: str) -> ReplicaSecrets:
    """The Secrets of a replica that keeps its *state* apart from its config, which has the *auth_key*."""
    config = slim_secret("egress-0-config", config_files(CONFIG, auth_key))
    return ReplicaSecrets(config, slim_secret("egress-0", state))


ASKING = {**LOGGED_IN, "reissue_authkey": "refused"}


class Apart(NamedTuple):
    secrets: ReplicaSecrets
    device: str = ""
    needs: bool = False
    keeps: bool = False
    """The key would be lost if another config were written."""
    reissue: Reissue = Reissue.NOT_ASKED


APART = {
    "none": Apart(ReplicaSecrets(), needs=True),
    "no state": Apart(ReplicaSecrets(apart().config), needs=True),
    "no state, a key": Apart(ReplicaSecrets(apart("unused").config), keeps=True),
    "no key": Apart(apart(), needs=True),
    "a key": Apart(apart("unused"), keeps=True),
    "logged in": Apart(apart(**LOGGED_IN), "n1"),
    "just logged in": Apart(apart("used", **LOGGED_IN), "n1"),
    "not reported": Apart(apart("used", **PROFILE), "n7", keeps=True),
    "no config": Apart(ReplicaSecrets(None, apart(**LOGGED_IN).state), "n1"),
    "refused": Apart(apart("refused", **ASKING), "n1", keeps=True, reissue=Reissue.ASKED),
    "refused, no key": Apart(apart(**ASKING), "n1", reissue=Reissue.ASKED),
    "refused, a new key": Apart(apart("new", **ASKING), "n1", keeps=True, reissue=Reissue.ANSWERED),
    "refused, no config": Apart(ReplicaSecrets(None, apart(**ASKING).state), "n1", reissue=Reissue.ASKED),
    "in the wrong place": Apart(ReplicaSecrets(asking(""), apart().state), needs=True),
}


@pytest.mark.parametrize("case", APART.values(), ids=APART)
def test_where_they_are_apart_the_key_is_in_the_config_and_the_device_in_the_state(case: Apart) -> None:
    assert device_id_of(case.secrets) == case.device
    assert needs_auth_key(case.secrets) is case.needs
    assert must_keep_auth_key(case.secrets, RENAMED) is case.keeps
    assert not must_keep_auth_key(case.secrets, CONFIG)
    assert reissue_of(case.secrets) is case.reissue


class Written(NamedTuple):
    secrets: ReplicaSecrets
    config: ProxyConfig
    auth_key: str
    files: dict[str, str]


@pytest.mark.parametrize(
    "case",
    [
        Written(apart(), CONFIG, "new", config_files(CONFIG, "new")),
        Written(apart("unused"), RENAMED, "unused", config_files(RENAMED, "unused")),
        Written(apart(**LOGGED_IN), RENAMED, "late", config_files(RENAMED)),
        Written(apart("used", **LOGGED_IN), CONFIG, "", config_files(CONFIG)),
        Written(apart("refused", **ASKING), CONFIG, "new", config_files(CONFIG, "new")),
        Written(ReplicaSecrets(apart().config), CONFIG, "new", config_files(CONFIG, "new")),
    ],
)
def test_where_they_are_apart_the_config_is_written_as_the_state_says(case: Written) -> None:
    patch = patched_of(case.secrets, case.config, case.auth_key)
    assert patch.key == Key("tailscale", "egress-0-config")
    assert texts(patch.body) == case.files


@pytest.mark.parametrize(
    "secrets",
    [
        apart("unused"),
        apart("unused", **PROFILE),
        apart(**LOGGED_IN),
        apart("new", **ASKING),
        ReplicaSecrets(apart("unused").config),
        ReplicaSecrets(None, apart(**LOGGED_IN).state),
    ],
)
def test_where_they_are_apart_a_config_that_is_right_or_missing_is_not_written(secrets: ReplicaSecrets) -> None:
    assert config_patch(secrets, CONFIG, "") is None


class Device(NamedTuple):
    data: dict[str, str]
    https_name: str
    serves_no_https: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Device({}, "db.tail1234.ts.net"),
        Device({"tailscale_capver": "108", "pod_uid": "P"}, "db.tail1234.ts.net"),
        Device({"tailscale_capver": "109", "pod_uid": "P"}, ""),
        Device({"tailscale_capver": "110", "pod_uid": "P", "https_endpoint": "db.example.org."}, "db.example.org"),
        Device({"tailscale_capver": "110", "pod_uid": "p", "https_endpoint": "x.example.org"}, "x.example.org"),
        Device({"tailscale_capver": "110", "pod_uid": "P", "https_endpoint": "No-HTTPS"}, "", True),
        Device({"tailscale_capver": "110", "pod_uid": "other", "https_endpoint": "no-https"}, "db.tail1234.ts.net"),
        Device({"tailscale_capver": "110", "https_endpoint": "no-https"}, "db.tail1234.ts.net"),
        Device({"tailscale_capver": "new", "pod_uid": "P", "https_endpoint": "no-https"}, "db.tail1234.ts.net"),
        Device({"tailscale_capver": "²", "pod_uid": "P", "https_endpoint": "no-https"}, "db.tail1234.ts.net"),
    ],
)
def test_the_https_name_is_what_the_running_pod_reports(case: Device) -> None:
    device = device_of(slim_secret(NAME, {**LOGGED_IN, **FQDN, **case.data}), pod(NAME, "P"))
    assert (device.id, device.fqdn) == ("n1", "db.tail1234.ts.net")
    assert (device.https_name, device.serves_no_https) == (case.https_name, case.serves_no_https)


def test_without_a_pod_the_capability_version_counts_for_nothing() -> None:
    data = {**LOGGED_IN, **FQDN, "tailscale_capver": "110", "pod_uid": "P", "https_endpoint": "no-https"}
    assert device_of(slim_secret(NAME, data), None).https_name == "db.tail1234.ts.net"


@pytest.mark.parametrize(
    ("state", "device"),
    [
        ({"_current-profile": "profile-1", "profile-1": '{"Config":{"NodeID":"n7"}}'}, "n7"),
        ({"_current-profile": "profile-1", "profile-2": '{"Config":{"NodeID":"n7"}}'}, ""),
        ({"_current-profile": "profile-1", "profile-1": '{"Config":null}'}, ""),
        ({"_current-profile": "profile-1", "profile-1": '{"Config":{"NodeID":7}}'}, ""),
        ({"_current-profile": "profile-1", "profile-1": "nonsense"}, ""),
    ],
)
def test_a_proxy_that_was_stopped_before_it_reported_is_known_by_its_state(state: dict[str, str], device: str) -> None:
    assert device_of(slim_secret(NAME, state), None).id == device
    assert device_of(slim_secret(NAME, {**state, **LOGGED_IN}), None).id == "n1"


def test_a_proxy_that_has_not_reported_has_an_empty_device() -> None:
    device = device_of(secret(), pod(NAME, "P"))
    assert (device.id, device.fqdn, device.https_name, device.serves_no_https) == ("", "", "", False)


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
def test_a_devices_addresses_are_those_that_it_reports(reported: str, ips: tuple[str, ...]) -> None:
    assert device_of(slim_secret(NAME, {**LOGGED_IN, "device_ips": reported}), None).ips == ips
    newer = {"tailscale_capver": "110", "pod_uid": "P", "device_ips": reported}
    assert device_of(slim_secret(NAME, {**LOGGED_IN, **newer}), pod(NAME, "P")).ips == ips


@pytest.mark.parametrize("auth_key", ["", "unused"])
def test_a_config_that_is_right_is_not_written(auth_key: str) -> None:
    assert config_patch(both(secret(auth_key=auth_key)), CONFIG, "") is None


def test_a_config_in_another_order_of_fields_is_right() -> None:
    files: dict[str, str | Object] = {
        name: dict(reversed(json.loads(text).items())) for name, text in config_files(CONFIG).items()
    }
    assert config_patch(both(slim_secret(NAME, files)), CONFIG, "") is None


def test_a_new_hostname_is_written_with_the_key_that_is_still_unused() -> None:
    patch = patched(secret(auth_key="unused"), RENAMED, "unused")
    assert patch.key == Key("tailscale", NAME)
    assert texts(patch.body) == config_files(RENAMED, "unused")


def test_a_patch_touches_only_our_config() -> None:
    assert set(patched(secret(device_id="n1"), RENAMED).body) == {"data"}
    assert set(patched(secret(device_id="n1"), RENAMED).body["data"]) == {
        "cap-107.hujson",
        "cap-95.hujson",
        "serve-config",
    }


def test_once_the_proxy_has_logged_in_its_key_goes() -> None:
    assert texts(patched(secret(auth_key="used", device_id="n1"), CONFIG).body) == config_files(CONFIG)


def test_a_proxy_that_has_logged_in_gets_no_key_again() -> None:
    assert texts(patched(secret(device_id="n1"), CONFIG, "late").body) == config_files(CONFIG)


def test_a_secret_that_lost_its_key_gets_one() -> None:
    assert texts(patched(secret(), CONFIG, "new-authkey").body) == config_files(CONFIG, "new-authkey")


def test_a_serve_config_that_is_not_wanted_any_more_goes() -> None:
    assert patched(secret(SERVING, device_id="n1"), CONFIG).body["data"]["serve-config"] is None
    assert texts(patched(secret(device_id="n1"), SERVING).body)["serve-config"] == '{"TCP":{}}'


def test_what_was_served_is_forgotten_with_the_serve_config() -> None:
    found = secret(SERVING, device_id="n1", _serve_1234="{}", _machinekey="state")
    assert {name for name, value in patched(found, CONFIG).body["data"].items() if value is None} == {
        "serve-config",
        "_serve_1234",
    }
    assert config_patch(both(found), SERVING, "") is None


def test_what_was_served_is_forgotten_even_if_it_was_written_late() -> None:
    found = secret(auth_key="unused", _serve_1234="{}")
    assert patched(found, CONFIG).body == {"data": {"_serve_1234": None}}


def test_a_config_for_newer_images_from_another_operator_goes() -> None:
    found = slim_secret(NAME, {**config_files(CONFIG), "cap-120.hujson": {"Hostname": "old"}, **LOGGED_IN})
    assert patched(found, CONFIG).body["data"]["cap-120.hujson"] is None


def test_a_config_that_cannot_be_read_is_replaced() -> None:
    found = slim_secret(NAME, {**config_files(CONFIG), "cap-107.hujson": "not JSON", **LOGGED_IN})
    assert texts(patched(found, CONFIG).body) == config_files(CONFIG)


class Kept(NamedTuple):
    data: dict[str, str | Object]
    certificate: Certificate


@pytest.mark.parametrize(
    "case",
    [
        Kept({}, Certificate(is_there=False)),
        Kept({"web.example.org.crt": CERTIFICATE}, Certificate(is_there=False)),
        Kept({"web.example.org.key": "secret"}, Certificate(is_there=False)),
        Kept({"web.example.org.crt": "?", "web.example.org.key": "secret"}, Certificate(is_there=True)),
        Kept({"web.example.org.crt": CERTIFICATE, "web.example.org.key": "secret"}, Certificate(True, VALIDITY)),
        Kept({"acme-account.key.pem": "secret"}, Certificate(is_there=False, asked=True)),
        Kept(
            {"acme-account.key.pem": "secret", "old.example.org.crt": CERTIFICATE, "old.example.org.key": "secret"},
            Certificate(is_there=False),
        ),
    ],
)
def test_of_a_certificate_it_is_kept_when_it_is_valid_and_no_key(case: Kept) -> None:
    kept = slim(whole_secret("ts-web-abcde-0", case.data))
    assert certificate_of(kept, "web.example.org") == case.certificate
    assert "secret" not in str(kept["data"])
    assert kept["data"] == {}
