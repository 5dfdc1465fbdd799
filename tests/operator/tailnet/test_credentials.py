"""The credentials and the control server of a Tailnet."""

import pytest
from pydantic import SecretStr
from tsoperator.api.objects import SECRET, TAILNET, Key, Object
from tsoperator.api.v1alpha1.tailnet import Tailnet
from tsoperator.runtime.plan import Refusal
from tsoperator.tailnet.credentials import SOON, Given, credentials, login_url, secret_name, violation

from tests.support.objects import obj
from tests.support.othertailnet import encoded

KEY = Key("tailscale", "lab-oauth")
SECRET_STR = SecretStr("s3cret")
NAMED = {"secretName": "lab-oauth"}


def tailnet(**spec: object) -> Object:
    return obj(TAILNET, Key("", "lab"), {"spec": {"credentials": NAMED, **spec}})


def secret(**data: str) -> Object:
    return obj(SECRET, KEY, {"data": encoded(data)})


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (None, "https://controlplane.tailscale.com"),
        ("", "https://controlplane.tailscale.com"),
        ("https://headscale.example.org/", "https://headscale.example.org"),
    ],
)
def test_the_login_url_of_a_tailnet_names_its_control_server_which_is_tailscales_by_default(
    given: str | None, used: str
) -> None:
    parsed = Tailnet.parse(tailnet(loginUrl=given))
    assert isinstance(parsed, Tailnet)
    assert (login_url(parsed), violation(parsed)) == (used, None)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"loginUrl": "https://[", "credentials": NAMED}, 'spec.loginUrl "https://[" is not the URL of a control'),
        ({}, "credentials"),
        ({"credentials": None}, "credentials"),
        ({"credentials": {"secretName": 7}}, "credentials"),
    ],
)
def test_a_tailnet_with_a_bad_url_or_without_credentials_is_invalid(spec: Object, words: str) -> None:
    made = {**tailnet(), "spec": spec}
    found = violation(Tailnet.parse(made))
    assert found is not None
    assert (found.reason, found.requeue_after, words in found.message) == ("TailnetInvalid", None, True)
    assert secret_name(made) == ("lab-oauth" if "loginUrl" in spec else "")


NO_ID, NO_SECRET = "is missing the client_id field", "must contain either a client_secret or an audience field"
BAD_SECRETS: dict[str, tuple[Object | None, str]] = {
    "missing": (None, 'referenced secret "lab-oauth" does not exist in namespace "tailscale"'),
    "no data": (obj(SECRET, KEY), 'Secret "lab-oauth" is empty'),
    "null data": (obj(SECRET, KEY, {"data": None}), 'Secret "lab-oauth" is empty'),
    "no ID": (secret(client_secret="s"), f'Secret "lab-oauth" {NO_ID}'),
    "blank ID": (secret(client_id=" \n", client_secret="s"), NO_ID),
    "ID that is no text": (obj(SECRET, KEY, {"data": {"client_id": "/w=="}}), NO_ID),
    "ID that is no base64": (obj(SECRET, KEY, {"data": {"client_id": "%"}}), NO_ID),
    "no secret": (secret(client_id="k"), NO_SECRET),
    "empty secret": (secret(client_id="k", client_secret="", audience=""), NO_SECRET),
}


@pytest.mark.parametrize(("found", "words"), BAD_SECRETS.values(), ids=BAD_SECRETS)
def test_the_refusal_of_a_bad_secret_names_the_missing_part_and_is_checked_again_if_the_secret_exists(
    found: Object | None, words: str
) -> None:
    told = credentials(KEY, found)
    assert isinstance(told, Refusal)
    assert (told.reason, told.requeue_after) == ("InvalidSecret", SOON if found else None)
    assert words in told.message


FEDERATED = Given("k", audience="lab.example.org")
GOOD_SECRETS: dict[str, tuple[dict[str, str], Given]] = {
    "OAuth client": ({"client_id": "k", "client_secret": "s3cret"}, Given("k", SECRET_STR)),
    "white space": ({"client_id": " k\n", "client_secret": "s3cret\r\n"}, Given("k", SECRET_STR)),
    "workload identity": ({"client_id": "k", "audience": "lab.example.org"}, FEDERATED),
    "both": ({"client_id": "k", "client_secret": "s3cret", "audience": "lab.example.org"}, FEDERATED),
}


@pytest.mark.parametrize(("data", "given"), GOOD_SECRETS.values(), ids=GOOD_SECRETS)
def test_the_secret_of_a_tailnet_describes_an_oauth_client_or_a_workload_identity(
    data: dict[str, str], given: Given
) -> None:
    assert credentials(KEY, secret(**data)) == given
    assert "s3cret" not in repr(given)
