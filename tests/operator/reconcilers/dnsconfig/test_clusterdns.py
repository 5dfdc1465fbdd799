"""The plan for the configuration of the cluster's DNS, and the part of a DNSConfig's status that is about it."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from clustersim.furniture import COREFILE
from tsoperator.api.conditions import condition
from tsoperator.api.objects import CONFIGMAP, Key
from tsoperator.api.v1alpha1.dnsconfig import ClusterDNS
from tsoperator.dns.cluster.platforms import OPENSHIFT_DNS
from tsoperator.dns.cluster.results import Change, DNSObjects, Nothing
from tsoperator.reconcilers.dnsconfig.clusterdns import (
    ClusterDNSPlan,
    NameserverHealth,
    condition_of,
    plan,
    removal,
    unseen_removal,
    without_reverted_writes,
    write_refusal,
    written_by,
)
from tsoperator.runtime.plan import Creation, Deletion, Patch, Refusal
from tsoperator.runtime.reverts import Reverts

from tests.operator.dns.cluster.objects import applied
from tests.support.objects import live_dnsconfig, obj, settings

ADDRESS, ZONE = "10.96.4.3", "tail1234.ts.net"
DOMAIN = "k8s.example.org"
MAY, MAY_NOT = (settings(manage_cluster_dns=may, cluster_domain=DOMAIN) for may in (True, False))
WITHOUT_RELOAD = COREFILE.replace("    reload\n", "")
IMPORTING = f"{COREFILE}import /etc/coredns/custom/*.server\n"
NODE_CACHE = ".:53 {\n    forward . 192.0.2.1\n}\n"
PASSED_ON = NODE_CACHE.replace(".:53", f".:53 {DOMAIN}:53")


def coredns(text: str = COREFILE, **others: dict[str, str]) -> DNSObjects:
    """Return CoreDNS's ConfigMap with the Corefile *text*, and one more ConfigMap for each of *others*.

    A keyword of *others* is the name of a ConfigMap, with ``_`` in place of ``-``. Its value is the data of the
    ConfigMap.
    """
    data = {"coredns": {"Corefile": text}, **{name.replace("_", "-"): value for name, value in others.items()}}
    return DNSObjects([obj(CONFIGMAP, Key("kube-system", name), {"data": each}) for name, each in data.items()])


def wanted(
    mode: str = "Managed",
    dns: DNSObjects | None = None,
    may: bool = True,
    zone: str = ZONE,
    problem: str = "",
    **fields: str,
) -> ClusterDNSPlan:
    asked = ClusterDNS.model_validate({"mode": mode, **fields})
    return plan(asked, dns or coredns(), [zone], NameserverHealth(ADDRESS, problem), MAY if may else MAY_NOT)


def after(dns: DNSObjects, **fields: Any) -> DNSObjects:
    """Return *dns* after the steps of the plan for it. *fields* are the other arguments of `wanted`."""
    return applied(dns, map(Change, wanted(dns=dns, **fields).steps))


def reason_of(found: ClusterDNSPlan) -> str | None:
    return found.result.reason if isinstance(found.result, Refusal) else None


class Told(NamedTuple):
    """A *plan*, with the number of *steps* and the *reason* of the refusal that it must have.

    *reason* is None if the plan must have no refusal. *restart* has words of the advice to restart CoreDNS that the
    plan must give; if *restart* is empty, the plan must give no such advice.
    """

    plan: ClusterDNSPlan
    steps: int
    reason: str | None
    restart: str = ""


MANAGED = after(coredns())
OWNED = "# It belongs to the operator in namespace tailscale.\n"
EARLIER = coredns(MANAGED.configmaps[0]["data"]["Corefile"].replace(OWNED, ""))
CASES = {
    "written": Told(wanted(), 1, None),
    "written before": Told(wanted(dns=MANAGED), 0, None),
    "written by an earlier version": Told(wanted(dns=EARLIER), 1, None),
    "written by an earlier version, and then by this one": Told(wanted(dns=after(EARLIER)), 0, None),
    "written before, without the right": Told(wanted(dns=MANAGED, may=False), 0, None),
    "written before, for a nameserver that is away": Told(wanted(dns=MANAGED, problem="no Pod"), 0, None),
    "a nameserver that isn't ready": Told(wanted(problem="no Pod"), 0, "NameserverPending"),
    "no right": Told(wanted(may=False), 0, "NotPermitted"),
    "no reload": Told(wanted(dns=coredns(WITHOUT_RELOAD)), 1, None, "rollout restart deployment coredns"),
    "NodeLocal DNSCache": Told(wanted(dns=coredns(node_local_dns={"Corefile": NODE_CACHE})), 1, "NodeCacheInFront"),
    "NodeLocal DNSCache that asks it": Told(wanted(dns=coredns(node_local_dns={"Corefile": PASSED_ON})), 1, None),
    "no platform": Told(wanted(dns=DNSObjects()), 0, "PlatformUnknown"),
    "another platform": Told(wanted(platform="KubeDNS"), 0, "PlatformMissing"),
    "broken": Told(wanted(dns=coredns("a {")), 0, "CorefileUnreadable"),
    "the cluster's own": Told(wanted(zone=f"svc.{DOMAIN}"), 0, "InvalidZone"),
    "an import": Told(wanted(dns=coredns(IMPORTING)), 1, None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_plan_writes_the_stub_domain_or_says_why_not(case: Told) -> None:
    result = case.plan.result
    assert (len(case.plan.steps), reason_of(case.plan)) == (case.steps, case.reason)
    restart = result.restart if isinstance(result, Nothing) else ""
    assert (case.restart in restart, bool(restart)) == (True, bool(case.restart))


def test_a_patch_of_the_clusters_dns_has_our_annotations_and_the_resource_version_that_the_operator_saw() -> None:
    kube_dns = DNSObjects([obj(CONFIGMAP, Key("kube-system", "kube-dns"), {}, resourceVersion="7")])
    openshift = replace(coredns(), openshift=obj(OPENSHIFT_DNS, Key("", "default"), resourceVersion="9"))
    steps = [step for dns in (coredns(), kube_dns, openshift) for step in wanted(dns=dns).steps]
    patches = [each for each in steps if isinstance(each, Patch)]
    assert [each.body["metadata"]["resourceVersion"] for each in patches] == ["1", "7", "9"]
    assert "annotations" in patches[1].body["metadata"]


class Reverted(NamedTuple):
    """The reverts of the Corefile by another writer, and the operator's reaction.

    The reaction is the number of *steps*, the *reason* of the refusal, whether the operator reports the reverts
    (*told*), and the seconds until it looks *again*.
    """

    reverts: Reverts
    steps: int
    reason: str | None
    told: bool
    again: float | None


PLACE = "key Corefile of ConfigMap kube-system/coredns"
REVERTED = {
    "often, and it is too early": Reverted(Reverts([PLACE], "eks", 7, 8), 0, "StubDomainOverwritten", True, 7),
    "often, and it is time": Reverted(Reverts([PLACE], "eks", 0, 8), 1, "StubDomainOverwritten", True, 8),
    "rarely": Reverted(Reverts([PLACE], "eks"), 1, None, True, None),
    "once": Reverted(Reverts(), 1, None, False, None),
    "not at all, but the cache is late": Reverted(Reverts(wait=3), 0, None, False, 3),
}


@pytest.mark.parametrize("case", REVERTED.values(), ids=REVERTED)
def test_the_operator_reports_reverts_of_the_stub_domain_and_waits_if_they_are_frequent(case: Reverted) -> None:
    found = without_reverted_writes(wanted(), {Key("kube-system", "coredns"): case.reverts})
    assert (len(found.steps), reason_of(found), found.again) == (case.steps, case.reason, case.again)
    assert found.overwritten.startswith(f"eks keeps undoing the operator's changes of {PLACE}: let it") is case.told


def test_the_message_about_a_writer_that_restores_the_stub_domain_advises_to_change_its_manifest() -> None:
    key = Key("kube-system", "coredns")
    found = without_reverted_writes(removal(MANAGED, MAY), {key: Reverts([PLACE], "argocd", 7, 8)})
    assert f"{PLACE}: take the lines of the operator out of what it applies" in found.overwritten


def test_each_step_for_the_clusters_dns_names_the_configmap_key_or_the_field_that_the_step_writes() -> None:
    kube_dns = DNSObjects([obj(CONFIGMAP, Key("kube-system", "kube-dns"), {})])
    openshift = replace(coredns(), openshift=obj(OPENSHIFT_DNS, Key("", "default")))
    custom = after(coredns(IMPORTING))
    steps = [*(step for dns in (coredns(), kube_dns, openshift) for step in wanted(dns=dns).steps)]
    steps += [*wanted(dns=coredns(IMPORTING)).steps, *removal(custom, MAY).steps]
    assert [written_by(step).words for step in steps] == [
        PLACE,
        "key stubDomains of ConfigMap kube-system/kube-dns",
        "spec.servers of DNS default",
        *["key tailnet.server of ConfigMap kube-system/coredns-custom"] * 2,
    ]


def test_the_stub_domain_moves_to_another_object_when_the_platform_changes() -> None:
    dns = coredns(IMPORTING)
    made, taken = wanted(dns=after(dns, platform="CoreDNS")).steps
    assert isinstance(made, Creation)
    assert isinstance(taken, Patch)
    assert taken.body["data"] == {"Corefile": IMPORTING}
    assert [type(step) for step in wanted("Manual", after(dns)).steps] == [Deletion]


def test_mode_manual_removes_the_stub_domain_that_the_operator_wrote_and_nothing_else() -> None:
    (step,) = wanted("Manual", MANAGED).steps
    assert isinstance(step, Patch)
    assert step.body["data"] == {"Corefile": COREFILE}
    assert (wanted("Manual").steps, wanted("Manual").result) == ([], None)
    assert reason_of(wanted("Manual", MANAGED, may=False)) == "NotPermitted"
    assert wanted("Manual", coredns("a {")).result is None


def test_the_stub_domain_of_another_operator_stays_unchanged() -> None:
    lab = replace(MAY, namespace="lab")
    managed = ClusterDNS.model_validate({"mode": "Managed"})
    found = plan(managed, MANAGED, [ZONE], NameserverHealth("10.96.4.4"), lab)
    assert (found.steps, reason_of(found)) == ((), "ZoneTaken")
    assert removal(MANAGED, lab).steps == []
    (step,) = plan(managed, MANAGED, ["lab.example.org"], NameserverHealth("10.96.4.4"), lab).steps
    assert isinstance(step, Patch)
    assert step.body["data"]["Corefile"].startswith(MANAGED.configmaps[0]["data"]["Corefile"])


def test_the_operator_does_not_remove_a_damaged_stub_domain() -> None:
    damaged = coredns(MANAGED.configmaps[0]["data"]["Corefile"].replace("# END", "# end"))
    assert (removal(damaged, MAY).steps, reason_of(removal(damaged, MAY))) == ((), "BlockDamaged")


@pytest.mark.parametrize("mode", ["Manual", "Managed"])
def test_the_status_of_a_dnsconfig_has_the_platform_the_zones_and_the_text_of_the_stub_domain(mode: str) -> None:
    status = wanted(mode).status
    assert (status["platform"], status["zones"]) == ("CoreDNS", [ZONE])
    assert f"forward . {ADDRESS}" in status["snippet"]
    assert wanted(mode, DNSObjects()).status == {"zones": [ZONE], "zonesFrom": "Tailnets"}


def test_the_status_says_whether_the_zones_come_from_a_setting_or_from_the_tailnets() -> None:
    found = [
        plan(ClusterDNS(), coredns(), [ZONE], NameserverHealth(ADDRESS), settings(zones=zones))
        for zones in ((), (ZONE,))
    ]
    assert [each.status["zonesFrom"] for each in found] == ["Tailnets", "Setting"]


@pytest.mark.parametrize(("mode", "reason"), [("Managed", "NotPermitted"), ("Manual", None)])
def test_an_operator_that_is_not_allowed_to_read_the_clusters_dns_looks_again_after_ten_seconds(
    mode: str, reason: str | None
) -> None:
    found = plan(ClusterDNS.model_validate({"mode": mode}), None, ["ts.net"], NameserverHealth(ADDRESS), MAY)
    assert (reason_of(found), found.status["zones"], found.again, found.steps) == (reason, ["ts.net"], 10, ())
    assert wanted().again is None


@pytest.mark.parametrize(("status", "held"), [("True", True), ("False", False), (None, False)])
def test_a_deleted_dnsconfig_waits_only_if_the_operator_wrote_a_stub_domain_that_it_cannot_read_now(
    status: str | None, held: bool
) -> None:
    conditions = [condition("ClusterDNSConfigured", status, "Any", "")] if status else []
    found = unseen_removal({**live_dnsconfig(), "status": {"conditions": conditions}})
    assert (found.result is not None, found.again) == (held, 10 if held else None)


@pytest.mark.parametrize(
    ("result", "status", "reason", "words"),
    [
        (Nothing(), "True", "StubDomainWritten", "is in the configuration of the cluster's DNS"),
        (Nothing("restart it"), "True", "RestartNeeded", "DNS. restart it"),
        (Refusal("it is taken", "ZoneTaken"), "False", "ZoneTaken", "it is taken"),
        (
            write_refusal("no", is_denied=True),
            "False",
            "NotPermitted",
            "If the operator lacks a right, set operatorCon",
        ),
        (write_refusal("no", is_denied=False), "False", "NotWritten", "no"),
    ],
)
def test_the_condition_about_the_clusters_dns_says_how_the_write_of_the_stub_domain_ended(
    result: Nothing | Refusal, status: str, reason: str, words: str
) -> None:
    told = condition_of(result, 3)
    assert words in told["message"]
    assert told == condition("ClusterDNSConfigured", status, reason, told["message"], 3)
