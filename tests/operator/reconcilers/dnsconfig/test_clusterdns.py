"""What becomes of the configuration of the cluster's DNS, and what the status of a DNSConfig says of it."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from clustersim.furniture import COREFILE
from tsoperator.api.conditions import condition
from tsoperator.api.objects import CONFIGMAP, Key
from tsoperator.api.v1alpha1.dnsconfig import ClusterDNS
from tsoperator.desired.clusterdns.platforms import OPENSHIFT_DNS
from tsoperator.desired.clusterdns.results import DNSObjects, Nothing, Refusal
from tsoperator.desired.plan import Creation, Deletion, Patch
from tsoperator.reconcilers.dnsconfig.clusterdns import Outcome, condition_of, outcome, refused, removal, unseen_removal

from tests.support.objects import live_dnsconfig, obj, settings

ADDRESS = "10.96.4.3"
MAY, MAY_NOT = settings(manage_cluster_dns=True), settings()
WITHOUT_RELOAD = COREFILE.replace("    reload\n", "")
IMPORTING = f"{COREFILE}import /etc/coredns/custom/*.server\n"
NODE_CACHE = ".:53 {\n    forward . 192.0.2.1\n}\n"


def coredns(text: str = COREFILE, **others: dict[str, str]) -> DNSObjects:
    """Return the ConfigMap of CoreDNS, and *others* by their names, with underscores for hyphens."""
    data = {"coredns": {"Corefile": text}, **{name.replace("_", "-"): value for name, value in others.items()}}
    return DNSObjects([obj(CONFIGMAP, Key("kube-system", name), {"data": each}) for name, each in data.items()])


ZONE = "tail1234.ts.net"


def wanted(
    mode: str = "Managed", dns: DNSObjects | None = None, may: bool = True, zone: str = ZONE, **fields: str
) -> Outcome:
    asked = ClusterDNS.model_validate({"mode": mode, **fields})
    found = coredns() if dns is None else dns
    return outcome(asked, found, [zone], ADDRESS, MAY if may else MAY_NOT)


def after(found: Outcome, dns: DNSObjects) -> DNSObjects:
    """Return what there is when the steps of *found* are carried out."""
    changed = {step.key: step.body for step in found.steps if isinstance(step, Patch)}
    made = [step.obj for step in found.steps if isinstance(step, Creation)]
    stored = [obj(CONFIGMAP, Key("kube-system", each["metadata"]["name"]), each) for each in made]
    return DNSObjects(
        [
            {
                **each,
                "data": {
                    **each["data"],
                    **changed.get(Key("kube-system", each["metadata"]["name"]), {}).get("data", {}),
                },
            }
            for each in dns.configmaps
        ]
        + [{**each, "metadata": {**made[0]["metadata"], "resourceVersion": "1"}} for each in stored]
    )


class Told(NamedTuple):
    """A case, and what is said of it: the reason of a refusal, or what to restart."""

    outcome: Outcome
    steps: int
    reason: str | None
    restart: str = ""


MANAGED = coredns(after(wanted(), coredns()).configmaps[0]["data"]["Corefile"])
CASES = {
    "written": Told(wanted(), 1, None),
    "written before": Told(wanted(dns=MANAGED), 0, None),
    "written before, without the right": Told(wanted(dns=MANAGED, may=False), 0, None),
    "no right": Told(wanted(may=False), 0, "NotPermitted"),
    "no reload": Told(wanted(dns=coredns(WITHOUT_RELOAD)), 1, None, "rollout restart deployment coredns"),
    "NodeLocal DNSCache": Told(wanted(dns=coredns(node_local_dns={"Corefile": NODE_CACHE})), 1, "NodeCacheInFront"),
    "no platform": Told(wanted(dns=DNSObjects()), 0, "PlatformUnknown"),
    "another platform": Told(wanted(platform="KubeDNS"), 0, "PlatformMissing"),
    "broken": Told(wanted(dns=coredns("a {")), 0, "CorefileUnreadable"),
    "taken": Told(wanted(dns=coredns(COREFILE + "tail1234.ts.net {\n whoami\n}\n")), 0, "ZoneTaken"),
    "the cluster's own": Told(wanted(zone="svc.cluster.local"), 0, "InvalidZone"),
    "an import": Told(wanted(dns=coredns(IMPORTING)), 1, None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_stub_domain_is_written_or_it_is_said_why_not(case: Told) -> None:
    result = case.outcome.result
    assert len(case.outcome.steps) == case.steps
    assert (result.reason if isinstance(result, Refusal) else None) == case.reason
    assert case.restart in (result.restart if isinstance(result, Nothing) else "")
    assert bool(case.restart) == bool(isinstance(result, Nothing) and result.restart)


def test_a_patch_is_of_the_version_that_was_seen_and_keeps_its_own_metadata() -> None:
    (step,) = wanted().steps
    kube_dns = DNSObjects([obj(CONFIGMAP, Key("kube-system", "kube-dns"), {}, resourceVersion="7")])
    (annotated,) = wanted(dns=kube_dns).steps
    openshift = obj(OPENSHIFT_DNS, Key("", "default"), resourceVersion="9")
    (server,) = wanted(dns=replace(coredns(), openshift=openshift)).steps
    patches = [each for each in (step, annotated, server) if isinstance(each, Patch)]
    assert [each.body["metadata"]["resourceVersion"] for each in patches] == ["1", "7", "9"]
    assert "annotations" in patches[1].body["metadata"]


def test_a_stub_domain_moves_with_the_platform() -> None:
    dns = coredns(IMPORTING)
    moved = coredns(after(wanted(dns=dns, platform="CoreDNS"), dns).configmaps[0]["data"]["Corefile"])
    made, taken = wanted(dns=moved).steps
    assert isinstance(made, Creation)
    assert isinstance(taken, Patch)
    assert taken.body["data"] == {"Corefile": IMPORTING}
    back = after(wanted(dns=dns), dns)
    assert [type(step) for step in wanted("Manual", back).steps] == [Deletion]


def test_mode_manual_takes_out_what_was_written_and_nothing_else() -> None:
    (step,) = wanted("Manual", MANAGED).steps
    assert isinstance(step, Patch)
    assert step.body["data"] == {"Corefile": COREFILE}
    assert (wanted("Manual").steps, wanted("Manual").result) == ([], None)
    assert refusal_of(wanted("Manual", MANAGED, may=False)) == "NotPermitted"
    assert wanted("Manual", coredns("a {")).result is None


def refusal_of(found: Outcome) -> str:
    assert isinstance(found.result, Refusal)
    return found.result.reason


def test_a_damaged_stub_domain_is_not_taken_out() -> None:
    damaged = coredns(MANAGED.configmaps[0]["data"]["Corefile"].replace("# END", "# end"))
    assert (removal(damaged, MAY).steps, refusal_of(removal(damaged, MAY))) == ((), "BlockDamaged")


@pytest.mark.parametrize("mode", ["Manual", "Managed"])
def test_the_status_says_what_the_clusters_dns_is_and_what_to_write(mode: str) -> None:
    status = wanted(mode).status
    assert (status["platform"], status["zones"]) == ("CoreDNS", ["tail1234.ts.net"])
    assert f"forward . {ADDRESS}" in status["snippet"]
    assert wanted(mode, DNSObjects()).status == {"zones": ["tail1234.ts.net"]}


def test_what_may_not_be_seen_is_looked_at_again() -> None:
    managed, manual = (outcome(ClusterDNS(mode=mode), None, ["ts.net"], ADDRESS, MAY) for mode in ("Managed", "Manual"))
    assert (refusal_of(managed), manual.result) == ("NotPermitted", None)
    assert [(each.status, each.again, each.steps) for each in (managed, manual)] == [
        ({"zones": ["ts.net"]}, 10, ())
    ] * 2
    assert wanted().again is None


@pytest.mark.parametrize(("status", "held"), [("True", True), ("False", False), (None, False)])
def test_what_was_written_and_may_not_be_seen_any_more_holds_the_dnsconfig(status: str | None, held: bool) -> None:
    conditions = [condition("ClusterDNSConfigured", status, "Any", "")] if status else []
    found = unseen_removal({**live_dnsconfig(), "status": {"conditions": conditions}})
    assert (found.result is not None, found.again) == (held, 10 if held else None)


@pytest.mark.parametrize(
    ("result", "status", "reason", "words"),
    [
        (Nothing(), "True", "StubDomainWritten", "is in the configuration of the cluster's DNS"),
        (Nothing("restart it"), "True", "RestartNeeded", "DNS. restart it"),
        (Refusal("ZoneTaken", "it is taken"), "False", "ZoneTaken", "it is taken"),
        (
            refused("no", is_denied=True),
            "False",
            "NotPermitted",
            "no. If the operator lacks a right, set operatorConfig",
        ),
        (refused("no", is_denied=False), "False", "NotWritten", "no"),
    ],
)
def test_the_condition_tells_the_result(result: Nothing | Refusal, status: str, reason: str, words: str) -> None:
    told = condition_of(result, 3)
    assert (told["type"], told["status"], told["reason"]) == ("ClusterDNSConfigured", status, reason)
    assert words in told["message"]
    assert told["observedGeneration"] == 3
