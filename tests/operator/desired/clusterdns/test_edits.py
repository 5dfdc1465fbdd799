"""What is written so that the cluster's DNS knows the nameserver, or forgets it."""

import base64
from dataclasses import replace
from typing import NamedTuple

import pytest
from tsoperator.api.objects import CONFIGMAP, Key, Object
from tsoperator.desired.clusterdns.edits import plan_edit, plan_removal
from tsoperator.desired.clusterdns.platforms import OPENSHIFT_DNS, Platform, find_platform
from tsoperator.desired.clusterdns.results import Change, DNSObjects, Nothing, Refusal, StubDomain
from tsoperator.desired.clusterdns.serverblock import BEGIN, END, server_block
from tsoperator.desired.clusterdns.stubdomains import ANNOTATION
from tsoperator.desired.plan import Creation, Deletion, Patch

from tests.operator.desired.clusterdns.objects import applied, configmap, stored

ROOT = ".:53 {\n    forward . /etc/resolv.conf\n    reload\n}\n"
IMPORTING = f"{ROOT}import custom/*.server\n"
STUB = StubDomain(("tail1234.ts.net",), ("10.96.0.53",))
OURS = f"{BEGIN}\n{server_block(STUB)}\n{END}\n"
TAKEN = "tail1234.ts.net:53 {\n}\n"
OPENSHIFT: Object = {"kind": "DNS", "metadata": {"name": "default"}, "spec": {}}
SERVER = {"name": "tailnet-managed", "zones": ["tail1234.ts.net"], "forwardPlugin": {"upstreams": ["10.96.0.53"]}}
OTHER = {"name": "x", "zones": ["example.org"]}


def coredns(corefile: str, **custom: str) -> DNSObjects:
    return DNSObjects(
        [configmap("coredns", Corefile=corefile), *([configmap("coredns-custom", **custom)] if custom else [])]
    )


def platform_of(objects: DNSObjects, wanted: str | None = None) -> Platform:
    platform = find_platform(objects, wanted)
    assert isinstance(platform, Platform), platform
    return platform


def edit_of(objects: DNSObjects, wanted: str | None = None) -> Change | Nothing | Refusal:
    return plan_edit(platform_of(objects, wanted), objects, STUB)


def patch(name: str, body: Object) -> Change:
    return Change(Patch(CONFIGMAP, Key("kube-system", name), body, "the stub domain"))


KUBE_DNS = {"data": {"stubDomains": '{"tail1234.ts.net": ["10.96.0.53"]}'}}
NOTE = '{"zones": {"tail1234.ts.net": ["10.96.0.53"]}, "made": true}'
CASES = {
    "the Corefile": (
        coredns(ROOT),
        patch("coredns", {"data": {"Corefile": ROOT + OURS}}),
        patch("coredns", {"data": {"Corefile": ROOT}}),
    ),
    "our key of a custom ConfigMap": (
        coredns(IMPORTING, a="b"),
        patch("coredns-custom", {"data": {"tailnet.server": OURS}}),
        patch("coredns-custom", {"data": {"tailnet.server": None}}),
    ),
    "our key, which somebody has written to": (
        coredns(IMPORTING, **{"tailnet.server": "# mine\n"}),
        patch("coredns-custom", {"data": {"tailnet.server": "# mine\n" + OURS}}),
        patch("coredns-custom", {"data": {"tailnet.server": "# mine\n"}}),
    ),
    "stub domains": (
        DNSObjects([configmap("kube-dns")]),
        patch("kube-dns", {**KUBE_DNS, "metadata": {"annotations": {ANNOTATION: NOTE}}}),
        patch("kube-dns", {"data": {"stubDomains": None}, "metadata": {"annotations": {ANNOTATION: None}}}),
    ),
    "servers": (
        DNSObjects((), OPENSHIFT),
        Change(Patch(OPENSHIFT_DNS, Key("", "default"), {"spec": {"servers": [SERVER]}}, "the stub domain")),
        Change(Patch(OPENSHIFT_DNS, Key("", "default"), {"spec": {"servers": None}}, "the stub domain")),
    ),
    "servers with others": (
        DNSObjects((), {**OPENSHIFT, "spec": {"servers": [OTHER]}}),
        Change(Patch(OPENSHIFT_DNS, Key("", "default"), {"spec": {"servers": [OTHER, SERVER]}}, "the stub domain")),
        Change(Patch(OPENSHIFT_DNS, Key("", "default"), {"spec": {"servers": [OTHER]}}, "the stub domain")),
    ),
}


@pytest.mark.parametrize(("before", "edit", "removal"), CASES.values(), ids=CASES)
def test_a_patch_adds_the_stub_domain_and_a_second_takes_it_out(
    before: DNSObjects, edit: Change, removal: Change
) -> None:
    assert edit_of(before) == edit
    assert plan_removal(before) == []
    after = applied(before, [edit])
    assert edit_of(after) == Nothing()
    assert plan_removal(after, keep=platform_of(after)) == []
    assert plan_removal(after) == [removal]


def test_a_custom_configmap_is_made_and_goes_again() -> None:
    before = coredns(IMPORTING)
    created = edit_of(before)
    assert isinstance(created, Change)
    assert isinstance(created.step, Creation)
    metadata = {"namespace": "kube-system", "name": "coredns-custom", "labels": {"tailscale.com/managed": "true"}}
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"tailnet.server": OURS}}
    assert created.step.obj == wanted
    after = applied(before, [created])
    assert plan_removal(after) == [Change(Deletion(CONFIGMAP, wanted, unchanged=True))]


@pytest.mark.parametrize("change", [{"data": {"a.server": "b {\n}\n"}}, {"metadata": {"labels": None}}], ids=str)
def test_a_custom_configmap_with_something_of_others_stays(change: Object) -> None:
    after = applied(coredns(IMPORTING), [edit_of(coredns(IMPORTING)), patch("coredns-custom", change)])
    assert plan_removal(after) == [patch("coredns-custom", {"data": {"tailnet.server": None}})]


def test_fields_that_openshift_adds_to_our_server_stay() -> None:
    live = {**SERVER, "forwardPlugin": {"policy": "Random", "upstreams": ["10.96.0.53"]}, "x": 1}
    objects = DNSObjects((), {**OPENSHIFT, "spec": {"servers": [live, OTHER]}})
    assert edit_of(objects) == Nothing()
    moved = plan_edit(platform_of(objects), objects, replace(STUB, addresses=("10.96.0.54",)))
    assert isinstance(moved, Change)
    assert isinstance(moved.step, Patch)
    wanted = {**live, "forwardPlugin": {"policy": "Random", "upstreams": ["10.96.0.54"]}}
    assert moved.step.body == {"spec": {"servers": [wanted, OTHER]}}


def test_our_server_is_made_whole_again() -> None:
    objects = DNSObjects((), {**OPENSHIFT, "spec": {"servers": [{"name": "tailnet-managed"}, OTHER]}})
    after = applied(objects, [edit_of(objects)]).openshift
    assert after is not None
    assert after["spec"]["servers"] == [SERVER, OTHER]


def test_a_stub_domain_moves_with_the_platform() -> None:
    before = applied(coredns(IMPORTING), [edit_of(coredns(IMPORTING), "CoreDNS")])
    platform = platform_of(before)
    edit, removal = plan_edit(platform, before, STUB), plan_removal(before, keep=platform)
    assert stored(applied(before, [edit, *removal])) == stored(
        applied(coredns(IMPORTING), [edit_of(coredns(IMPORTING))])
    )


def test_a_coredns_that_doesnt_reload_has_to_be_restarted_after_each_change() -> None:
    before = coredns(IMPORTING.replace("    reload\n", ""))
    change = edit_of(before)
    after = applied(before, [change])
    (removal,) = plan_removal(after)
    restarts = [each.restart for each in (change, edit_of(after), removal) if not isinstance(each, Refusal)]
    assert restarts == [platform_of(before).restart] * 3
    assert restarts[0].endswith("kubectl -n kube-system rollout restart deployment coredns")


class Bad(NamedTuple):
    objects: DNSObjects
    reason: str
    where: str
    wanted: str | None = None


BAD = {
    "a block of somebody else": Bad(coredns(ROOT + TAKEN), "ZoneTaken", "line 5 of ConfigMap kube-system/coredns, key"),
    "a block of somebody else in the Corefile": Bad(coredns(TAKEN + IMPORTING), "ZoneTaken", "coredns, key Corefile"),
    "in another key": Bad(coredns(IMPORTING, **{"a.server": TAKEN}), "ZoneTaken", "coredns-custom, key a.server"),
    "in our key": Bad(coredns(IMPORTING, **{"tailnet.server": TAKEN}), "ZoneTaken", "custom, key tailnet.server"),
    "in a key that is imported": Bad(
        coredns(IMPORTING, **{"a.server": TAKEN}), "ZoneTaken", "coredns-custom, key a.server", "CoreDNS"
    ),
    "in a file for the block for all names": Bad(
        coredns(IMPORTING, **{"b.override": "log", "a.override": "forward tail1234.ts.net 1.2.3.4"}),
        "ZoneTaken",
        "line 1 of ConfigMap kube-system/coredns-custom, key a.override, has plugin forward for tail1234.ts.net",
    ),
    "an unreadable key": Bad(coredns(IMPORTING, **{"a.server": "a {"}), "CorefileUnreadable", "custom, key a.server"),
    "damaged": Bad(coredns(ROOT + END), "BlockDamaged", "ConfigMap kube-system/coredns, key Corefile"),
    "stub domains that aren't JSON": Bad(
        DNSObjects([configmap("kube-dns", stubDomains="")]), "StubDomainsUnreadable", "kube-dns, key stubDomains"
    ),
    "another server": Bad(
        DNSObjects((), {**OPENSHIFT, "spec": {"servers": [{"name": "y", "zones": ["a", "TAIL1234.ts.net."]}]}}),
        "ZoneTaken",
        "server 'y' in DNS default, spec.servers answers for TAIL1234.ts.net.",
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_an_unsafe_change_is_not_made(bad: Bad) -> None:
    refusal = edit_of(bad.objects, bad.wanted)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == bad.reason
    assert bad.where in refusal.message


@pytest.mark.parametrize(
    "custom", [{"a.override": TAKEN}, {"a.override": "{"}, {"a.txt": TAKEN}], ids=["override", "unreadable", "no file"]
)
def test_keys_without_server_blocks_dont_matter(custom: dict[str, str]) -> None:
    assert isinstance(edit_of(coredns(IMPORTING, **custom)), Change)


def test_keys_that_arent_imported_dont_matter() -> None:
    assert isinstance(edit_of(coredns(ROOT, **{"a.server": TAKEN})), Change)


@pytest.mark.parametrize("found", [(), ({"kind": "ConfigMap", "metadata": configmap("coredns")["metadata"]},)], ids=len)
def test_an_object_that_has_gone_meanwhile_is_a_reason(found: tuple[Object, ...]) -> None:
    for before in (coredns(ROOT), DNSObjects([configmap("kube-dns")]), DNSObjects((), OPENSHIFT)):
        refusal = plan_edit(platform_of(before), DNSObjects(found), STUB)
        assert isinstance(refusal, Refusal)
        assert refusal.reason == "PlatformMissing"


def test_an_unsafe_removal_is_a_reason_and_the_rest_goes() -> None:
    custom = configmap("coredns-custom", **{"tailnet.server": OURS})
    refusal, change = plan_removal(DNSObjects([configmap("coredns", Corefile=ROOT + BEGIN), custom]))
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "BlockDamaged"
    assert change == patch("coredns-custom", {"data": {"tailnet.server": None}})


def test_objects_without_anything_of_ours_are_left_alone_however_broken() -> None:
    broken = [
        configmap("coredns", Corefile="{"),
        configmap("coredns-custom", **{"tailnet.server": "{"}),
        configmap("kube-dns", stubDomains="{"),
        {"metadata": configmap("rke2-coredns-rke2-coredns")["metadata"]},
    ]
    assert plan_removal(DNSObjects(broken, {"metadata": {"name": "default"}})) == []


LIMIT = 1 << 20


@pytest.mark.parametrize("spare", [0, -1], ids=["fits", "is too much"])
@pytest.mark.parametrize("filler", ["#", "\u00e9", "binary"])
def test_a_configmap_is_never_written_beyond_its_limit(spare: int, filler: str) -> None:
    room = LIMIT - len(ROOT + OURS) - spare
    objects = coredns(ROOT)
    (found,) = objects.configmaps
    if filler == "binary":
        found["binaryData"] = {"x": base64.b64encode(bytes(room)).decode()}
    else:
        found["data"]["x"] = filler * (room // len(filler.encode())) + "#" * (room % len(filler.encode()))
    edit = edit_of(objects)
    if spare == 0:
        assert isinstance(edit, Change)
        return
    message = (
        f"ConfigMap kube-system/coredns has no room for the stub domain: with it there would be {LIMIT + 1} bytes, and "
        f"a ConfigMap holds {LIMIT}: take something out of it"
    )
    assert edit == Refusal("ConfigMapFull", message)


def test_stub_domains_have_the_same_limit() -> None:
    objects = DNSObjects([configmap("kube-dns", x="#" * (LIMIT - 10))])
    refusal = edit_of(objects)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "ConfigMapFull"
