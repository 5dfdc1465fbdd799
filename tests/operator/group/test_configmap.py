"""The egress ConfigMap of a ProxyGroup."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from tsoperator.api.objects import CONFIGMAP, Key, Object
from tsoperator.group.configmap import SIZE_MAX, egress_configmap_steps, entries
from tsoperator.group.egress import entry_of
from tsoperator.proxy.entries import Entry, Port, entries_of, render_entries, slim_configmap
from tsoperator.runtime.plan import Creation, Patch, Step

from tests.operator.reconcilers.proxygroup.groups import OWNED, OWNER, cluster_ip_service
from tests.support.objects import deleting, obj

KEY = Key("tailscale", "foo-egress-config")
WANTED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"namespace": "tailscale", "name": KEY.name, "labels": OWNER.labels, **OWNED},
}
DB, WEB = cluster_ip_service("db"), cluster_ip_service("web", ports=[(80, 10001), (443, 10002)])
LATER_DB = {**WEB, "metadata": {**DB["metadata"], "name": "a", "creationTimestamp": "2"}}
OF_GO = cluster_ip_service("db", fqdn="")
OLD = Entry("old.tail1234.ts.net", "", frozenset({Port("TCP", 10000, 1)}), "http://old/healthz")
SIX = base64.b64encode(b"6").decode()


def wanted_of(service: Object) -> Entry:
    found = entry_of(service, "cluster.local")
    assert found is not None
    return found


def live(found: dict[str, Entry] | None = None, pings: str = SIX, **metadata: Any) -> Object:
    data = {"hep-pings": pings} | ({} if found is None else {"egress-services": render_entries(found)})
    head = {"labels": OWNER.labels, **OWNED, **metadata}
    return slim_configmap(obj(CONFIGMAP, KEY, {"binaryData": data}, **head))


def steps(services: list[Object], there: Object | None, replicas: int | None = 2) -> list[Step]:
    return egress_configmap_steps(WANTED, there, services, replicas, "cluster.local")


def patch(*services: Object, there: Object, replicas: int | None = 2) -> Object:
    (found,) = steps([*services], there, replicas)
    assert isinstance(found, Patch)
    assert (found.resource, found.key) == (CONFIGMAP, KEY)
    return found.body


def test_a_new_configmap_has_the_number_of_health_checks_and_the_entries_of_all_services() -> None:
    assert steps([], None) == [Creation({**WANTED, "binaryData": {"hep-pings": SIX}})]
    (made,) = steps([DB], None)
    assert isinstance(made, Creation)
    document = json.loads(base64.b64decode(made.obj["binaryData"]["egress-services"]))
    assert document == {
        "default-db": {
            "healthCheckEndpoint": "http://ts-db-x7k2p.tailscale.svc.cluster.local:9002/healthz",
            "tailnetTarget": {"ip": "", "fqdn": "db.tail1234.ts.net"},
            "ports": [{"protocol": "TCP", "matchPort": 10437, "targetPort": 5432}],
        }
    }


CASES: dict[str, tuple[list[Object], dict[str, Entry], dict[str, Entry]]] = {
    "new": ([DB, WEB], {}, {"default-db": wanted_of(DB), "default-web": wanted_of(WEB)}),
    "edited": ([DB], {"default-db": OLD}, {"default-db": wanted_of(DB)}),
    "gone": ([], {"default-db": OLD}, {}),
    "leaving": ([deleting(DB)], {"default-db": OLD}, {}),
    "made by Go": ([OF_GO], {"default-db": OLD, "default-web": OLD}, {"default-db": OLD}),
    "made by Go, without entry": ([OF_GO], {}, {}),
    "two for one Service": ([LATER_DB, DB], {}, {"default-db": wanted_of(DB)}),
    "two, the older first": ([DB, LATER_DB], {}, {"default-db": wanted_of(DB)}),
    "two, the older leaving": ([deleting(DB), LATER_DB], {}, {"default-db": wanted_of(LATER_DB)}),
}


@pytest.mark.parametrize(("services", "there", "wanted"), CASES.values(), ids=CASES)
def test_the_clusterip_services_of_a_group_decide_which_entries_its_configmap_gets(
    services: list[Object], there: dict[str, Entry], wanted: dict[str, Entry]
) -> None:
    found = entries(services, live(there), "cluster.local")
    assert (found.chosen, found.left_out) == (wanted, 0)


def test_only_the_keys_of_the_configmap_that_differ_are_written() -> None:
    db = {"default-db": wanted_of(DB)}
    assert steps([DB, WEB], live({"default-web": wanted_of(WEB), **db})) == steps([], live()) == []
    assert patch(DB, there=live(db), replicas=3) == {"binaryData": {"hep-pings": base64.b64encode(b"9").decode()}}
    assert patch(DB, there=live()) == {"binaryData": {"egress-services": render_entries(db)}}
    assert patch(there=live({"default-db": OLD})) == {"binaryData": {"egress-services": render_entries({})}}


@pytest.mark.parametrize("text", ["nonsense", "null", '{"default-db":{}}', '{"default-db":1}'])
def test_entries_that_can_not_be_read_are_replaced(text: str) -> None:
    data = {"hep-pings": SIX, "egress-services": base64.b64encode(text.encode()).decode()}
    broken = slim_configmap(obj(CONFIGMAP, KEY, {"binaryData": data}, labels=OWNER.labels, **OWNED))
    assert patch(there=broken) == {"binaryData": {"egress-services": render_entries({})}}


def test_the_operator_restores_lost_labels_and_owners_of_a_configmap() -> None:
    bare = live(labels={"a": "b"}, ownerReferences=[{"kind": "Lease", "name": "x"}])
    (owner,) = OWNED["ownerReferences"]
    owners = [{"kind": "Lease", "name": "x"}, owner]
    wanted = {"labels": OWNER.labels, "ownerReferences": owners, "resourceVersion": "1"}
    assert patch(there=bare) == {"metadata": wanted}


def test_an_unknown_number_of_replicas_or_a_deletion_in_progress_causes_no_write_of_the_configmap() -> None:
    assert steps([DB], deleting(live())) == []
    assert steps([], live(pings="other"), None) == []


def big(number: int, kib: int, *, created: str = "2") -> Object:
    """Return a ClusterIP Service whose entry takes about *kib* KiB in the stored ConfigMap."""
    name = f"{number:02}"
    return cluster_ip_service(name, fqdn=f"{name}.{'x' * (kib * 768)}", creationTimestamp=created)


def test_the_newest_services_are_left_out_of_a_full_configmap() -> None:
    services = [big(1, 400, created="3"), big(2, 400, created="1"), big(3, 400, created="2"), DB]
    found = entries(services, None, "cluster.local")
    assert (sorted(found.chosen), found.left_out) == (["default-02", "default-03", "default-db"], 1)
    assert len(found.document) <= SIZE_MAX
    made = steps(services, live())
    assert isinstance(made[0], Patch)
    assert made[0].body["metadata"] == {"annotations": {"tailscale.com/egress-left-out": "1"}}


def test_a_full_configmap_keeps_its_entries_although_one_should_grow_and_another_should_be_added() -> None:
    there = {f"default-{number:02}": wanted_of(big(number, 440)) for number in (1, 2)}
    services = [big(1, 440), big(2, 440), big(3, 440, created="1")]
    full = live(there, annotations={"tailscale.com/egress-left-out": "1"})
    assert steps(services, full) == []
    grown = entries([big(1, 600), *services[1:]], full, "cluster.local")
    assert (grown.chosen, grown.document, grown.left_out) == (there, "", 2)


def test_a_full_configmap_gets_a_new_entry_when_one_of_its_entries_shrinks() -> None:
    there = {f"default-{number:02}": wanted_of(big(number, 440)) for number in (1, 2)}
    full = live(there, annotations={"tailscale.com/egress-left-out": "1"})
    found = patch(big(1, 40), big(2, 440), big(3, 400), there=full)
    assert found["metadata"] == {"annotations": {"tailscale.com/egress-left-out": None}}
    stored = entries_of(slim_configmap({**full, "binaryData": found["binaryData"]}))
    assert sorted(stored) == ["default-01", "default-02", "default-03"]


def test_an_entry_can_shrink_although_its_configmap_is_larger_than_the_limit() -> None:
    there = {f"default-{number:02}": wanted_of(big(number, 440)) for number in (1, 2, 3)}
    services = [big(1, 400), big(2, 440), big(3, 440)]
    found = entries(services, live(there), "cluster.local")
    assert (found.chosen, found.left_out) == ({**there, "default-01": wanted_of(services[0])}, 0)


def test_an_entry_that_fits_to_the_byte_is_stored_and_a_larger_entry_is_left_out() -> None:
    exact = replace(wanted_of(DB), fqdn="")
    room = SIZE_MAX // 4 * 3 - len(base64.b64decode(render_entries({"default-db": exact})))
    for more, left_out in ((0, 0), (1, 1)):
        found = entries([cluster_ip_service(fqdn="x" * (room + more))], None, "cluster.local")
        assert (found.left_out, len(found.chosen)) == (left_out, 1 - left_out)
