"""Advice on the settings that a tailnet lacks for a proxy, with lines to paste."""

import json

import pytest
from tsoperator.api import policy
from tsoperator.api.objects import SECRET, Key
from tsoperator.proxy import advice
from tsoperator.proxy.secret import ReportedDevice
from tsoperator.runtime.plan import Creation, Patch, Plan

KEY = Key("tailscale", "ts-web-0")
TAILSCALE = "https://controlplane.tailscale.com"
HEADSCALE = "https://headscale.example.org"


OTHERS = [HEADSCALE, "https://tailscale.com.example.org", "https://nottailscale.com", ""]


@pytest.mark.parametrize("url", [TAILSCALE, "https://login.tailscale.com:443", "https://tailscale.com", *OTHERS])
def test_the_control_server_of_tailscale_is_recognized_by_its_name(url: str) -> None:
    assert policy.is_tailscales(url) is (url not in OTHERS)
    assert ("login.tailscale.com" in policy.policy_place(url) + policy.clients_place(url)) is (url not in OTHERS)


def test_the_advice_has_the_policy_lines_for_the_owners_of_tags() -> None:
    def lines(tags: list[str], owners: list[str]) -> object:
        return json.loads(f"{{{policy.tag_owners(tags, owners)}}}")["tagOwners"]

    assert lines(["tag:k8s"], []) == {"tag:k8s-operator": [], "tag:k8s": ["tag:k8s-operator"]}
    assert lines(["tag:a", "tag:b"], ["tag:c"]) == {"tag:c": [], "tag:a": ["tag:c"], "tag:b": ["tag:c"]}
    assert lines(["tag:ops"], ["tag:ops"]) == {"tag:ops": []}


def test_the_policy_line_for_funnel_has_exactly_the_tags_of_the_proxy() -> None:
    line = json.loads(f"{{{policy.funnel_attribute(['tag:k8s', 'tag:web'])}}}")
    assert line == {"nodeAttrs": [{"target": ["tag:k8s", "tag:web"], "attr": ["funnel"]}]}


CREATED = Creation({"data": {"serve-config": "e30="}})
WRITTEN = Patch(SECRET, KEY, {"data": {"serve-config": "e30="}})
TAKEN_AWAY = Patch(SECRET, KEY, {"data": {"serve-config": None}})
OTHER = Patch(SECRET, KEY, {"spec": {"type": "ExternalName"}})


@pytest.mark.parametrize(("step", "said"), [(CREATED, 1), (WRITTEN, 1), (TAKEN_AWAY, 0), (OTHER, 0), (None, 0)])
def test_the_advice_on_funnel_depends_on_the_serve_config_of_the_proxy(
    step: Creation | Patch | None, said: int
) -> None:
    notes = advice.funnel_notes(Plan(steps=[step] if step else []), ["tag:web"])
    assert [note.type for note in notes] == ["Normal"] * said
    assert all(policy.funnel_attribute(["tag:web"]) in note.message for note in notes)


def test_the_advice_without_https_names_the_admin_console_except_on_headscale() -> None:
    note, other = (advice.no_https(ReportedDevice(id, "", "", True), "Funnel") for id in ("n000001CNTRL", "7"))
    assert (note.reason, other.reason) == ("HTTPSNotEnabled", "UnsupportedByControlServer")
    assert "Funnel can't work: enable MagicDNS and HTTPS" in note.message
    assert "https://login.tailscale.com/admin/dns" in note.message
    assert other.message.startswith("Funnel is not supported by this control server")
    assert "login.tailscale.com" not in other.message


def test_the_advice_names_a_device_that_waits_for_approval_and_where_to_approve_it() -> None:
    assert "db.tail1234.ts.net is not approved" in policy.approval("db.tail1234.ts.net")
    assert "https://login.tailscale.com/admin/machines" in policy.approval("db")
