"""The node ID in a Secret with the state of a tailscaled."""

import pytest
from tsoperator.api.objects import Object
from tsoperator.tailnet.operatorid import UnreadableProfile, node_id_in

from tests.support.objects import whole_secret

CURRENT = {"_current-profile": "profile-1a2b"}
READ: dict[str, tuple[dict[str, str | Object], str]] = {
    "a login": ({**CURRENT, "profile-1a2b": {"Config": {"NodeID": "nABC"}}}, "nABC"),
    "another profile": ({**CURRENT, "profile-3c4d": {"Config": {"NodeID": "nABC"}}}, ""),
    "a profile before its login": ({**CURRENT, "profile-1a2b": {"Config": None}}, ""),
    "no profile": ({"_machinekey": "privkey:00", "device_id": "nOLD"}, ""),
    "nothing": ({}, ""),
}
WRONG = {
    "half a file": ('{"Config"', "its key profile-1a2b isn't JSON"),
    "no object": ("[]", "its key profile-1a2b isn't a login profile of tailscaled"),
    "a number": ('{"Config": {"NodeID": 7}}', "its key profile-1a2b isn't a login profile of tailscaled"),
}


@pytest.mark.parametrize(("data", "node_id"), READ.values(), ids=READ)
def test_the_node_id_is_that_of_the_current_profile_of_the_tailscaled(
    data: dict[str, str | Object], node_id: str
) -> None:
    assert node_id_in(whole_secret("operator", data)) == node_id


@pytest.mark.parametrize(("profile", "words"), WRONG.values(), ids=WRONG)
def test_an_unreadable_profile_of_a_tailscaled_is_an_error(profile: str, words: str) -> None:
    with pytest.raises(UnreadableProfile, match=words):
        node_id_in(whole_secret("operator", {**CURRENT, "profile-1a2b": profile}))


def test_a_profile_of_a_tailscaled_that_is_no_text_is_an_error() -> None:
    secret = whole_secret("operator", CURRENT)
    secret["data"]["profile-1a2b"] = "/w=="
    with pytest.raises(UnreadableProfile, match="isn't text"):
        node_id_in(secret)
