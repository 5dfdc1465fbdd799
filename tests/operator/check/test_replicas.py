"""The findings that a check draws from the metrics of the operator's Pods."""

from dataclasses import replace

import pytest
from tsoperator.check.findings import Finding
from tsoperator.check.replicas import OperatorPod, check_replicas, parse_metrics

LEADS = "tsoperator_leading 1.0"
STANDS_BY = "tsoperator_leading 0.0"
SET_UP = 'tsoperator_preflight{check="api",tailnet=""} 1.0'


def replica(*lines: str, at: str = "a", wrong: str = "") -> OperatorPod:
    return OperatorPod(at, wrong, samples=parse_metrics("".join(f"{line}\n" for line in lines)))


def wrong(*replicas: OperatorPod) -> list[Finding]:
    return [each for each in check_replicas("tailscale", replicas) if each.verdict != "ok"]


def test_a_healthy_leader_and_a_healthy_standby_cause_only_good_findings() -> None:
    served = 'tsoperator_proxies{parent="svc",ready="true"} 3.0', 'tsoperator_proxies{parent="svc",ready="false"} 0.0'
    found = [*check_replicas("tailscale", [replica(LEADS, SET_UP, *served), replica(STANDS_BY, at="b")])]
    assert [each.words for each in found] == [
        "operator at a is ready",
        "operator at b is ready",
        "operator at a leads",
        "the tailnet is set up for the operator, as far as it can see",
        "proxies that serve: 3 of 3",
    ]


def failed_look(check: str, tailnet: str = "") -> list[str]:
    return [LEADS, SET_UP, f'tsoperator_preflight{{check="{check}",tailnet="{tailnet}"}} 0.0']


def watch(resource: str, namespace: str, refused: float = 1.0) -> list[str]:
    return [LEADS, SET_UP, f'tsoperator_watch_refused{{resource="{resource}",namespace="{namespace}"}} {refused}']


ANOTHERS = [LEADS, 'tsoperator_preflight{check="api",tailnet="b"} 1.0']
PROXIES = [
    'tsoperator_proxies{parent="svc",ready="true"} 2.0',
    'tsoperator_proxies{parent="svc",ready="false"} 1.0',
    'tsoperator_proxies{parent="connector",ready="false"} 2.0',
]
WAITING = "3 of 5 proxies don't serve (1 of type svc, 2 of type connector)"
NO_CREDENTIALS = "does not accept the OAuth client"
EVENTS = "get events --field-selector reason=Preflight"
ROLES = "the chart's roles"
CASES = [
    ([STANDS_BY], "leader", "no Pod of the operator leads (1 looked at)", "get lease tailscale-operator"),
    ([LEADS], "preflight", "has not looked at the tailnet yet", "wait a minute"),
    (ANOTHERS, "preflight", "has not looked", "wait a minute"),
    (failed_look("api"), "preflight/api", "does not answer as one", "OPERATOR_LOGIN_SERVER"),
    (failed_look("credentials"), "preflight/credentials", NO_CREDENTIALS, "Secret operator-oauth"),
    (failed_look("auth_keys"), "preflight/auth_keys", "may not make auth keys", "scope Auth Keys"),
    (failed_look("devices"), "preflight/devices", "may not see and change", "scope Devices Core"),
    (failed_look("services"), "preflight/services", "may not write Tailscale Services", "scope Services"),
    (failed_look("tags"), "preflight/tags", "may not give tags", EVENTS),
    (failed_look("moon"), "preflight/moon", "the check 'moon'", "docs/tailnet-policy.md"),
    (failed_look("tags", "b"), "preflight/tags", "Tailnet b: the OAuth client", "`kubectl describe tailnet b`"),
    (watch("services", "a"), "watches", "may not see services in namespace a", ROLES),
    (watch("connectors", ""), "watches", "the operator may not see connectors", ROLES),
    ([LEADS, SET_UP, *PROXIES], "proxies", WAITING, "tailscale.com/managed=true"),
]


@pytest.mark.parametrize(("lines", "check", "words", "cure"), CASES)
def test_the_finding_for_each_fault_in_the_metrics_has_a_cure(
    lines: list[str], check: str, words: str, cure: str
) -> None:
    (found,) = wrong(replica(*lines))
    assert (found.verdict, found.check) == ("FAILED", check)
    assert words in found.words
    assert cure in found.cure
    assert found.about == ("Tailnet b" if "Tailnet b" in words else "")


def test_a_watch_that_failed_and_works_again_is_no_fault() -> None:
    assert wrong(replica(*watch("services", "a", refused=0.0))) == []


def test_a_check_reports_two_leaders_as_a_fault() -> None:
    (found,) = wrong(replica(LEADS, SET_UP), replica(LEADS, SET_UP, at="b"))
    assert found.words == "2 Pods of the operator lead at a time"


def test_a_pod_that_is_being_deleted_can_still_lead_and_need_not_be_ready() -> None:
    old = replace(replica(LEADS, SET_UP, at="old", wrong="not ready: leader: stopping"), is_ending=True)
    found = [*check_replicas("tailscale", [old, replica(STANDS_BY, at="new")])]
    assert [each.words for each in found][:2] == ["operator at new is ready", "operator at old leads, until it ends"]
    assert wrong(old, replica(STANDS_BY)) == []


@pytest.mark.parametrize("leaders", [0, 2])
def test_the_cure_is_to_check_again_if_no_pod_or_more_than_one_pod_leads(leaders: int) -> None:
    (found,) = wrong(*(replica(LEADS if each < leaders else STANDS_BY, SET_UP, at=str(each)) for each in range(2)))
    assert found.cure.startswith("check again")


@pytest.mark.parametrize(
    ("replicas", "verdicts"),
    [
        ([OperatorPod("a", unread="403")], ["can't look"]),
        ([OperatorPod("a", unread="403"), replica(STANDS_BY)], ["can't look"]),
        ([OperatorPod("a", unread="403"), replica(LEADS, SET_UP)], []),
        ([OperatorPod("a", wrong="it is not ready", unread="503")], ["FAILED", "can't look"]),
    ],
)
def test_a_pod_whose_metrics_cannot_be_read_counts_as_a_possible_leader(
    replicas: list[OperatorPod], verdicts: list[str]
) -> None:
    assert [each.verdict.value for each in wrong(*replicas)] == verdicts


def test_a_pod_that_does_not_answer_causes_a_single_finding() -> None:
    (found,) = wrong(OperatorPod("a", "no answer", "look at it"))
    assert (found.words, found.cure) == ("operator at a: no answer", "look at it")
