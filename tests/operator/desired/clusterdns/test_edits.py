"""What is written so that the cluster's DNS knows the nameserver, or forgets it."""

from tsoperator.api.objects import CONFIGMAP, Key, Object
from tsoperator.desired.clusterdns.edits import plan_edit, plan_removal
from tsoperator.desired.clusterdns.platforms import Platform, find_platform
from tsoperator.desired.clusterdns.results import Change, DNSObjects, Nothing, StubDomain
from tsoperator.desired.clusterdns.serverblock import BEGIN, END, server_block
from tsoperator.desired.plan import Patch

ROOT = ".:53 {\n    errors\n    forward . /etc/resolv.conf\n    reload\n}\n"
STUB = StubDomain(("tail1234.ts.net",), ("10.96.0.53",))


def configmap(name: str, **data: str) -> Object:
    return {"metadata": {"namespace": "kube-system", "name": name}, "data": data}


def test_a_corefile_gets_our_block_and_loses_it_again() -> None:
    before = DNSObjects([configmap("coredns", Corefile=ROOT)])
    platform = find_platform(before)
    assert isinstance(platform, Platform)
    added = f"{ROOT}{BEGIN}\n{server_block(STUB)}\n{END}\n"
    patch = Patch(CONFIGMAP, Key("kube-system", "coredns"), {"data": {"Corefile": added}}, "the stub domain")
    assert plan_edit(platform, before, STUB) == Change(patch)

    after = DNSObjects([configmap("coredns", Corefile=added)])
    assert plan_edit(platform, after, STUB) == Nothing()
    assert plan_removal(after, keep=platform) == plan_removal(before) == []
    (removal,) = plan_removal(after)
    assert isinstance(removal, Change)
    assert isinstance(removal.step, Patch)
    assert removal.step.body == {"data": {"Corefile": ROOT}}
