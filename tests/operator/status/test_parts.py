"""The parts of the report on tailnets, DNS and refusals."""

import pytest
from tsoperator.api.conditions import condition
from tsoperator.api.objects import Object
from tsoperator.status.parts import (
    NO_DNSCONFIG,
    NOT_LOOKED,
    SET_UP,
    TailnetFacts,
    dns_parts,
    refusal_parts,
    tailnet_part,
)

URL = "https://control.example.org"
NO_SCOPE = {"auth_keys": "no scope", "devices": "no list"}


def told(*conditions: tuple[str, bool | str, str]) -> Object:
    return {
        "status": {"conditions": [condition(type_, is_true, reason, reason) for type_, is_true, reason in conditions]}
    }


def tailnet(*, is_valid: bool) -> Object:
    return told(("TailnetReady", is_valid, "TailnetValid" if is_valid else "SecretMissing"))


@pytest.mark.parametrize(
    ("facts", "verdict", "words"),
    [
        (TailnetFacts(""), "waiting", NOT_LOOKED),
        (TailnetFacts("", is_looked=True), "ok", SET_UP),
        (TailnetFacts("", is_looked=True, wrong=NO_SCOPE), "failed", "no scope; no list"),
        (TailnetFacts("b", tailnet=tailnet(is_valid=False)), "failed", "SecretMissing"),
        (TailnetFacts("b", is_looked=True, tailnet=tailnet(is_valid=True)), "ok", "TailnetValid"),
        (
            TailnetFacts("b", is_looked=True, wrong=NO_SCOPE, tailnet=tailnet(is_valid=True)),
            "failed",
            "no scope; no list",
        ),
    ],
)
def test_a_tailnet_is_judged_by_a_false_condition_of_its_object_or_else_by_the_latest_preflight(
    facts: TailnetFacts, verdict: str, words: str
) -> None:
    part = tailnet_part(facts)
    assert (part["name"], part["verdict"], part["words"]) == (facts.name, verdict, words)


def test_a_tailnet_has_the_url_of_its_control_server_and_the_domains_of_its_devices() -> None:
    part = tailnet_part(TailnetFacts("", URL, ["tail2.ts.net", "", "tail1.ts.net"], is_looked=True))
    assert part == {
        "name": "", "controlURL": URL, "domain": "tail1.ts.net, tail2.ts.net", "verdict": "ok", "words": SET_UP
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dnsconfig", "wanted"),
    [
        (None, [("nameserver", "ok", NO_DNSCONFIG)]),
        (
            told(),
            [
                ("nameserver", "waiting", "the operator has not looked at it yet"),
                ("cluster DNS", "waiting", "the operator has not looked at it yet"),
            ],
        ),
        (
            told(("NameserverReady", False, "ProxyFailed"), ("RecordsComplete", False, "TooManyNames")),
            [
                ("nameserver", "failed", "ProxyFailed"),
                ("cluster DNS", "waiting", "the operator has not looked at it yet"),
            ],
        ),
        (
            told(("NameserverReady", True, "NameserverCreated"), ("ClusterDNSReady", False, "NotForwarded")),
            [("nameserver", "ok", "NameserverCreated"), ("cluster DNS", "failed", "NotForwarded")],
        ),
        (
            told(
                ("NameserverReady", True, "NameserverCreated"),
                ("RecordsComplete", False, "TooManyNames"),
                ("ClusterDNSReady", False, "NotForwarded"),
                ("ClusterDNSConfigured", False, "NotPermitted"),
            ),
            [("nameserver", "failed", "TooManyNames"), ("cluster DNS", "failed", "NotPermitted")],
        ),
    ],
)
def test_the_nameserver_and_the_clusters_dns_are_judged_by_the_conditions_of_the_dnsconfig(
    dnsconfig: Object | None, wanted: list[tuple[str, str, str]]
) -> None:
    assert [(each["name"], each["verdict"], each["words"]) for each in dns_parts(dnsconfig)] == wanted


def test_refusals_of_the_control_servers_and_of_the_api_server_are_listed() -> None:
    facts = [TailnetFacts("", wrong={"devices": "no list"}), TailnetFacts("b", wrong={"tags": "no tag"})]
    found = [*refusal_parts(facts, [("services", "shop"), ("ingresses.networking.k8s.io", "")])]
    assert [(each["what"], each.get("tailnet", ""), each["words"]) for each in found] == [
        ("devices", "", "no list"),
        ("tags", "b", "no tag"),
        ("ingresses.networking.k8s.io", "", "the operator may not see ingresses.networking.k8s.io"),
        ("services", "", "the operator may not see services in namespace shop"),
    ]
