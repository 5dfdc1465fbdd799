"""The edits that add the stub domain to the configuration of the cluster's DNS or remove it."""

import base64
from dataclasses import replace

import pytest
from tsoperator.api.objects import CONFIGMAP, Key, Object
from tsoperator.dns.cluster.edits import plan_edit, plan_removal
from tsoperator.dns.cluster.openshift import server_name
from tsoperator.dns.cluster.platforms import OPENSHIFT_DNS
from tsoperator.dns.cluster.results import Change, DNSObjects, Nothing, StubDomain
from tsoperator.dns.cluster.serverblock import BEGIN, END, EVERYWHERE, marked_block
from tsoperator.dns.cluster.stubdomains import ANNOTATION
from tsoperator.runtime.plan import Creation, Deletion, Patch, Refusal

from tests.operator.dns.cluster.objects import OPENSHIFT, OWNER, applied, configmap, platform_of, stored

ROOT = ".:53 {\n    forward . /etc/resolv.conf\n    reload\n}\n"
IMPORTING = f"{ROOT}import custom/*.server\n"
STUB = StubDomain(("tail1234.ts.net",), ("10.96.0.53",))
OURS = f"{marked_block(STUB, EVERYWHERE, OWNER)}\n"
TAKEN = "tail1234.ts.net:53 {\n}\n"
SERVER = {"name": server_name(OWNER), "zones": ["tail1234.ts.net"], "forwardPlugin": {"upstreams": ["10.96.0.53"]}}
OTHER = {"name": "x", "zones": ["example.org"]}
LIMIT = 1 << 20


def coredns(corefile: str, **custom: str) -> DNSObjects:
    own = [configmap("coredns-custom", **custom)] if custom else []
    return DNSObjects([configmap("coredns", Corefile=corefile), *own])


def openshift(*servers: Object) -> DNSObjects:
    return DNSObjects((), {**OPENSHIFT, "spec": {"servers": [*servers]}})


def edit_of(objects: DNSObjects, wanted: str | None = None) -> Change | Nothing | Refusal:
    return plan_edit(platform_of(objects, wanted), objects, STUB, OWNER)


def patch(name: str, body: Object) -> Change:
    return Change(Patch(CONFIGMAP, Key("kube-system", name), body, "the stub domain"))


def in_coredns(corefile: str) -> Change:
    return patch("coredns", {"data": {"Corefile": corefile}})


def in_custom(text: str | None) -> Change:
    return patch("coredns-custom", {"data": {"tailnet.server": text}})


def in_kube_dns(stubs: str | None, note: str | None) -> Change:
    return patch("kube-dns", {"data": {"stubDomains": stubs}, "metadata": {"annotations": {ANNOTATION: note}}})


def in_openshift(*servers: Object) -> Change:
    body = {"spec": {"servers": [*servers] or None}}
    return Change(Patch(OPENSHIFT_DNS, Key("", "default"), body, "the stub domain"))


STUBS = '{"tail1234.ts.net": ["10.96.0.53"]}'
NOTE = '{"tailscale": {"zones": {"tail1234.ts.net": ["10.96.0.53"]}, "made": true}}'
MINE = {"tailnet.server": "# mine\n"}
CASES = {
    "the Corefile": (coredns(ROOT), in_coredns(ROOT + OURS), in_coredns(ROOT)),
    "our key of a custom ConfigMap": (coredns(IMPORTING, a="b"), in_custom(OURS), in_custom(None)),
    "somebody wrote to our key": (coredns(IMPORTING, **MINE), in_custom("# mine\n" + OURS), in_custom("# mine\n")),
    "stub domains": (DNSObjects([configmap("kube-dns")]), in_kube_dns(STUBS, NOTE), in_kube_dns(None, None)),
    "servers": (DNSObjects((), OPENSHIFT), in_openshift(SERVER), in_openshift()),
    "servers with others": (openshift(OTHER), in_openshift(OTHER, SERVER), in_openshift(OTHER)),
}


@pytest.mark.parametrize(("before", "edit", "removal"), CASES.values(), ids=CASES)
def test_a_patch_adds_the_stub_domain_and_another_patch_removes_it(
    before: DNSObjects, edit: Change, removal: Change
) -> None:
    assert edit_of(before) == edit
    assert plan_removal(before, OWNER) == []
    after = applied(before, [edit])
    assert edit_of(after) == Nothing()
    assert plan_removal(after, OWNER, keep=platform_of(after)) == []
    assert plan_removal(after, OWNER) == [removal]


def test_a_custom_configmap_is_created_for_the_stub_domain_and_deleted_with_it() -> None:
    metadata = {"namespace": "kube-system", "name": "coredns-custom", "labels": {"tailscale.com/managed": "true"}}
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"tailnet.server": OURS}}
    created = edit_of(coredns(IMPORTING))
    assert isinstance(created, Change)
    assert created.step == Creation(wanted)
    after = applied(coredns(IMPORTING), [created])
    assert plan_removal(after, OWNER) == [Change(Deletion(CONFIGMAP, wanted, unchanged=True))]


@pytest.mark.parametrize(
    "change",
    [{"data": {"a.server": "b {\n}\n"}}, {"binaryData": {"geo.db": "/wA="}}, {"metadata": {"labels": None}}],
    ids=str,
)
def test_a_custom_configmap_with_other_content_stays_when_the_stub_domain_is_removed(change: Object) -> None:
    after = applied(coredns(IMPORTING), [edit_of(coredns(IMPORTING)), patch("coredns-custom", change)])
    assert plan_removal(after, OWNER) == [in_custom(None)]


def test_our_server_on_openshift_keeps_the_fields_that_openshift_adds() -> None:
    live = {**SERVER, "forwardPlugin": {"policy": "Random", "upstreams": ["10.96.0.53"]}, "x": 1}
    objects = openshift(live, OTHER)
    assert edit_of(objects) == Nothing()
    wanted = {**live, "forwardPlugin": {"policy": "Random", "upstreams": ["10.96.0.54"]}}
    moved = plan_edit(platform_of(objects), objects, replace(STUB, addresses=("10.96.0.54",)), OWNER)
    assert moved == in_openshift(wanted, OTHER)


def test_the_operator_restores_its_damaged_server_on_openshift() -> None:
    assert edit_of(openshift({"name": SERVER["name"]}, OTHER)) == in_openshift(SERVER, OTHER)


def test_on_openshift_two_operators_have_servers_side_by_side() -> None:
    theirs = {**SERVER, "name": server_name("lab"), "zones": ["lab.example.org"]}
    assert edit_of(openshift(theirs)) == in_openshift(theirs, SERVER)
    assert plan_removal(openshift(theirs, SERVER), OWNER) == [in_openshift(theirs)]


def test_the_server_that_an_earlier_version_wrote_into_openshifts_dns_is_replaced() -> None:
    earlier = {**SERVER, "name": "tailnet-managed"}
    assert edit_of(openshift(earlier, OTHER)) == in_openshift(SERVER, OTHER)
    assert plan_removal(openshift(earlier, OTHER), OWNER) == [in_openshift(OTHER)]


def test_a_change_of_platform_moves_the_stub_domain() -> None:
    before = applied(coredns(IMPORTING), [edit_of(coredns(IMPORTING), "CoreDNS")])
    platform = platform_of(before)
    moved = applied(before, [plan_edit(platform, before, STUB, OWNER), *plan_removal(before, OWNER, keep=platform)])
    assert stored(moved) == stored(applied(coredns(IMPORTING), [edit_of(coredns(IMPORTING))]))


def test_a_coredns_without_the_reload_plugin_must_be_restarted_after_each_change() -> None:
    before = coredns(IMPORTING.replace("    reload\n", ""))
    change = edit_of(before)
    after = applied(before, [change])
    (removal,) = plan_removal(after, OWNER)
    restarts = [each.restart for each in (change, edit_of(after), removal) if not isinstance(each, Refusal)]
    assert restarts == [platform_of(before).restart] * 3
    assert restarts[0].endswith("kubectl -n kube-system rollout restart deployment coredns")


OVERRIDES = {"b.override": "log", "a.override": "forward tail1234.ts.net 1.2.3.4"}
IN_OVERRIDE = "line 1 of ConfigMap kube-system/coredns-custom, key a.override, has plugin forward for tail1234.ts.net"
THEIRS = {"name": "y", "zones": ["a", "TAIL1234.ts.net."]}
BAD = {
    "a block of somebody else": (coredns(ROOT + TAKEN), "ZoneTaken", "line 5 of ConfigMap kube-system/coredns, key"),
    "in the Corefile": (coredns(TAKEN + IMPORTING), "ZoneTaken", "coredns, key Corefile"),
    "in another key": (coredns(IMPORTING, **{"a.server": TAKEN}), "ZoneTaken", "coredns-custom, key a.server"),
    "in our key": (coredns(IMPORTING, **{"tailnet.server": TAKEN}), "ZoneTaken", "custom, key tailnet.server"),
    "in a file for the block for all names": (coredns(IMPORTING, **OVERRIDES), "ZoneTaken", IN_OVERRIDE),
    "an unreadable key": (coredns(IMPORTING, **{"a.server": "a {"}), "CorefileUnreadable", "custom, key a.server"),
    "damaged": (coredns(ROOT + END), "BlockDamaged", "ConfigMap kube-system/coredns, key Corefile"),
    "no JSON": (DNSObjects([configmap("kube-dns", stubDomains="")]), "StubDomainsUnreadable", "kube-dns, key stubDom"),
    "no room": (DNSObjects([configmap("kube-dns", x="#" * (LIMIT - 10))]), "ConfigMapFull", "kube-system/kube-dns"),
    "a server": (openshift(THEIRS), "ZoneTaken", "server 'y' in DNS default, spec.servers answers for TAIL1234.ts.net"),
}


@pytest.mark.parametrize(("objects", "reason", "where"), BAD.values(), ids=BAD)
def test_the_operator_refuses_an_unsafe_change_of_the_clusters_dns(
    objects: DNSObjects, reason: str, where: str
) -> None:
    refusal = edit_of(objects)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason
    assert where in refusal.message


def test_a_corefile_is_not_edited_if_a_configmap_key_that_it_imports_has_a_server_block_for_our_zone() -> None:
    refusal = edit_of(coredns(IMPORTING, **{"a.server": TAKEN}), "CoreDNS")
    assert isinstance(refusal, Refusal)
    assert "coredns-custom, key a.server" in refusal.message


@pytest.mark.parametrize("custom", [{"a.override": TAKEN}, {"a.override": "{"}, {"a.txt": TAKEN}])
def test_a_configmap_key_causes_no_refusal_if_it_has_no_server_blocks_or_is_not_imported(
    custom: dict[str, str],
) -> None:
    assert isinstance(edit_of(coredns(IMPORTING, **custom)), Change)
    assert isinstance(edit_of(coredns(ROOT, **{"a.server": TAKEN})), Change)


@pytest.mark.parametrize("found", [(), ({"kind": "ConfigMap", "metadata": configmap("coredns")["metadata"]},)], ids=len)
def test_the_operator_refuses_an_edit_of_an_object_or_a_corefile_that_no_longer_exists(
    found: tuple[Object, ...],
) -> None:
    for before in (coredns(ROOT), DNSObjects([configmap("kube-dns")]), DNSObjects((), OPENSHIFT)):
        refusal = plan_edit(platform_of(before), DNSObjects(found), STUB, OWNER)
        assert isinstance(refusal, Refusal)
        assert refusal.reason == "PlatformMissing"


def test_a_refusal_to_remove_the_stub_domain_from_one_object_does_not_prevent_its_removal_from_another() -> None:
    custom = configmap("coredns-custom", **{"tailnet.server": OURS})
    refusal, change = plan_removal(DNSObjects([configmap("coredns", Corefile=ROOT + BEGIN), custom]), OWNER)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "BlockDamaged"
    assert change == in_custom(None)


def test_objects_of_the_clusters_dns_without_our_changes_stay_unchanged_even_if_the_objects_are_broken() -> None:
    broken = [
        configmap("coredns", Corefile="{"),
        configmap("coredns-custom", **{"tailnet.server": "{"}),
        configmap("kube-dns", stubDomains="{"),
        {"metadata": configmap("rke2-coredns-rke2-coredns")["metadata"]},
    ]
    assert plan_removal(DNSObjects(broken, {"metadata": {"name": "default"}}), OWNER) == []


@pytest.mark.parametrize("filler", ["#", "\u00e9", "binary"])
def test_no_write_makes_a_configmap_larger_than_its_limit(filler: str) -> None:
    def filled(room: int) -> DNSObjects:
        if filler == "binary":
            data = {"binaryData": {"x": base64.b64encode(bytes(room)).decode()}}
            return DNSObjects([configmap("coredns", Corefile=ROOT) | data])
        text = filler * (room // len(filler.encode())) + "#" * (room % len(filler.encode()))
        return DNSObjects([configmap("coredns", Corefile=ROOT, x=text)])

    message = (
        f"ConfigMap kube-system/coredns has no room for the stub domain: with it there would be {LIMIT + 1} bytes, and "
        f"a ConfigMap holds {LIMIT}: take something out of it"
    )
    room = LIMIT - len(ROOT + OURS)
    assert isinstance(edit_of(filled(room)), Change)
    assert edit_of(filled(room + 1)) == Refusal(message, "ConfigMapFull")
