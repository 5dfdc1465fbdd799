"""The rules of an ingress group, the document that has them, and the reports of proxies about them."""

import json
from base64 import b64encode
from collections.abc import Mapping

import pytest
from tsoperator.api.names import INGRESS_RULES
from tsoperator.api.tailscaleservice import TailscaleService
from tsoperator.proxy.hosting import (
    HostReport,
    Mapped,
    Rule,
    hosted,
    read_host_report,
    rule_for,
    rules_document,
    slim_hosting,
)

API = TailscaleService("svc:default-api", ("100.64.1.2", "fd7a::2"))
IP4, IP6 = Mapped("100.64.1.2", "10.0.0.9"), Mapped("fd7a::2", "fd00::9")
DOCUMENT = '{"svc:default-api":{"IPv4Mapping":{"TailscaleServiceIP":"100.64.1.2","ClusterIP":"10.0.0.9"}}}'


@pytest.mark.parametrize(
    ("service", "cluster_ips", "expected"),
    [
        (API, ["10.0.0.9"], {4: IP4}),
        (API, ["fd00::9", "10.0.0.9"], {4: IP4, 6: IP6}),
        (API, ["None"], {}),
        (API, [], {}),
        (TailscaleService("svc:default-api", ("100.64.1.2",)), ["fd00::9"], {}),
        (TailscaleService("svc:default-api"), ["10.0.0.9"], {}),
    ],
)
def test_a_rule_has_the_ip_versions_that_both_the_tailscale_service_and_the_cluster_ips_have(
    service: TailscaleService, cluster_ips: list[str], expected: Rule
) -> None:
    assert rule_for(service, cluster_ips) == expected


def rules_of(document: str) -> Mapping[str, Rule]:
    return hosted(slim_hosting({"binaryData": {INGRESS_RULES: b64encode(document.encode()).decode()}})).rules


def test_the_document_of_rules_equals_that_of_the_go_operator_and_has_the_same_rules_when_it_is_read() -> None:
    rules = {"svc:default-api": {4: IP4}}
    assert (rules_document(rules), rules_of(DOCUMENT)) == (DOCUMENT, rules)
    several = {"svc:b": {4: IP4, 6: IP6}, "svc:a": {6: IP6}}
    assert rules_of(rules_document(several)) == several


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'{{"configs":{DOCUMENT},"podIPv4":"10.1.0.7"}}', HostReport("10.1.0.7", "", {"svc:default-api": {4: IP4}})),
        ('{"podIPv6":"fd01::7"}', HostReport("", "fd01::7")),
        ('{"configs":{"svc:a":null,"svc:b":{}},"podIPv4":"10.1.0.7"}', HostReport("10.1.0.7", "", {"svc:b": {}})),
        ('{"configs":[],"podIPv4":"10.1.0.7"}', HostReport("10.1.0.7")),
        ("{}", None),
        ("[]", None),
        ("not JSON", None),
        (json.dumps("text"), None),
    ],
)
def test_a_proxys_report_is_read_as_far_as_it_is_valid(text: str, expected: HostReport | None) -> None:
    assert read_host_report(text) == expected
