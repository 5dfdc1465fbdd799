"""The plan for the ConfigMaps that hold the records."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tsnameserver.records import Records, merge, parse
from tsoperator.api.objects import CONFIGMAP, DNSCONFIG, Key, Object
from tsoperator.dns.nameserver import ANNOTATION_LEFT_OUT, nameserver_labels
from tsoperator.dns.records.live import Record
from tsoperator.dns.records.shards import Limits, shard_named
from tsoperator.dns.records.table import Bucket, Table
from tsoperator.reconcilers.dnsrecords import plan as plans
from tsoperator.reconcilers.dnsrecords.plan import Observed
from tsoperator.runtime.ownership import owner_reference
from tsoperator.runtime.plan import Child, Deletion, Note, Patch, Plan, Refusal, Report, Step
from tsoperator.tailnet.zones import Suffixes, zones_status

from tests.support.objects import (
    FQDN,
    children_of,
    deleting,
    deletions_of,
    live_dnsconfig,
    obj,
    patches_of,
    rolled_out,
    settings,
)

SETTINGS = settings()
OURS = settings(nameserver_image="example.org/tsnameserver:v1")
DNSCONFIG_OBJ = live_dnsconfig()
METADATA: Object = {
    "labels": nameserver_labels("ts-dns", "tailscale"),
    "ownerReferences": [owner_reference(DNSCONFIG, "ts-dns", "ts-dns-uid")],
}
UP = Record(FQDN, ("192.0.2.1",), ())
BOTH = Record(FQDN, ("192.0.2.1",), ("2001:db8::1",))
RIGHT = Plan(steps=[], reports=[Report(DNSCONFIG_OBJ)])
"""The plan for ConfigMaps that are correct already: it has no steps."""


@cache
def buckets(records: tuple[Record, ...]) -> tuple[Bucket, ...]:
    table = Table()
    for number, record in enumerate(records):
        table.put(Key("tailscale", f"ts-{number}"), record)
    return table.buckets()


parsed = cache(parse)
"""The nameserver's parser of a document, with a cache."""


def plan(*records: Record, configmap: Object | None = None) -> Plan:
    live = {} if configmap is None else {0: configmap}
    return plans.plan(Observed(DNSCONFIG_OBJ, buckets(records), live), SETTINGS)


def configmap(document: str | None, **metadata: object) -> Object:
    data = {} if document is None else {"data": {"records.json": document}}
    return obj(CONFIGMAP, Key("tailscale", "dnsrecords"), data, **{**METADATA, **metadata})


def document_of(made: Plan) -> Object:
    """Return the document that the plan *made* writes, by a create or by a patch."""
    contents = children_of(made) + [patch.body for patch in patches_of(made)]
    (content,) = contents
    document: Object = json.loads(content["data"]["records.json"])
    return document


def test_a_missing_configmap_of_records_is_created_with_all_its_fields() -> None:
    text = '{"version":"v1alpha1","ip4":{"db.tail1234.ts.net":["192.0.2.1"]},"zones":["ts.net"],"serial":1}'
    metadata = {"namespace": "tailscale", "name": "dnsrecords", **METADATA}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"records.json": text}}
    assert plan(UP).steps == [Child(made)]


SERVED = '{"version":"v1alpha1","ip4":{"db.tail1234.ts.net":["192.0.2.1"]},"zones":["ts.net"],"serial":7}'


def test_a_change_of_the_records_raises_the_serial_and_patches_only_our_fields() -> None:
    made = plan(BOTH, configmap=configmap(SERVED))
    (patch,) = patches_of(made)
    assert (document_of(made)["serial"], document_of(made)["ip6"]) == (8, {FQDN: ["2001:db8::1"]})
    body = {"metadata": {**METADATA, "resourceVersion": "1"}, "data": patch.body["data"]}
    assert made.steps == [Patch(CONFIGMAP, Key("tailscale", "dnsrecords"), body)]


UNREADABLE = [
    *(None, "", "not JSON", "[]", '{"version":"v2","ip4":{}}', '{"ip4":{}}'),
    *('{"version":"v1alpha1","serial":-1}', '{"version":"v1alpha1","ip4":null}'),
    '{"version":"v1alpha1","ip4":{"db.tail1234.ts.net":["192.0.2.1"]}}',
]


@pytest.mark.parametrize("document", UNREADABLE)
def test_a_document_of_records_that_is_unreadable_or_from_the_go_operator_is_replaced(document: str | None) -> None:
    made = document_of(plan(UP, configmap=configmap(document)))
    assert (made["serial"], made["ip4"]) == (1, {FQDN: ["192.0.2.1"]})


def test_the_operator_puts_lost_labels_back_on_a_configmap_of_records() -> None:
    (patch,) = patches_of(plan(UP, configmap=configmap(SERVED, labels={"more": "x"})))
    assert patch.body["metadata"]["labels"] == METADATA["labels"]
    assert patch.body["data"]["records.json"] == SERVED


def test_the_plan_keeps_the_keys_and_labels_of_others_in_a_configmap_of_records() -> None:
    found = configmap(SERVED, labels={**METADATA["labels"], "more": "x"})
    found["data"]["other"] = "kept"
    assert plan(UP, configmap=found) == RIGHT


OLD, TAIL, OWN = "old.example.org", "tail.example.org", "k8s.example.org"
SHOWN = zones_status((), [OLD])


@pytest.mark.parametrize(
    ("status", "live", "suffixes", "zones"),
    [
        ({}, [], Suffixes((TAIL,)), [TAIL]),
        (SHOWN, [], Suffixes(), [OLD]),
        (SHOWN, [], Suffixes((TAIL,)), [OLD, TAIL]),
        (SHOWN, [], Suffixes((TAIL,), complete=True), [TAIL]),
        (SHOWN, [OLD, OWN], Suffixes(), [OLD]),
        ({"zones": [OLD]}, [OLD, OWN], Suffixes(), []),
        (zones_status((OLD,), [OLD]), [OLD, OWN], Suffixes(), []),
        ({}, [OLD, OWN], Suffixes(), [OLD]),
    ],
)
def test_a_zone_that_could_be_a_tailnets_suffix_stays_in_the_records_until_all_suffixes_are_known(
    status: Object, live: list[str], suffixes: Suffixes, zones: list[str]
) -> None:
    text = json.dumps(["ts.net", *live], separators=(",", ":"))
    found = configmap(SERVED.replace('["ts.net"]', text))
    shown = {**DNSCONFIG_OBJ, "status": {"clusterDNS": status}}
    given = settings(cluster_domain=OWN.title())
    made = plans.plan(Observed(shown, buckets((BOTH,)), {0: found}, suffixes=suffixes), given)
    assert document_of(made)["zones"] == ["ts.net", *zones]


def test_the_records_have_exactly_the_zones_that_the_settings_name() -> None:
    made = plans.plan(Observed(DNSCONFIG_OBJ, buckets(())), settings(zones=("ts.net", TAIL)))
    assert document_of(made)["zones"] == ["ts.net", TAIL]


LIMITS = Limits(split=1000, full=2000)
Cluster = Mapping[int, Object]
"""A map from the number of a shard to its ConfigMap."""


def named(count: int, address: str = "192.0.2.1") -> list[Record]:
    return [Record(f"db-{number}.tail1234.ts.net", (address,), ()) for number in range(count)]


def sharded(cluster: Cluster, records: Iterable[Record], of: object = OURS) -> Plan:
    """Return the plan for *records* in *cluster*, while all Pods of the nameserver run our image.

    The settings name our image, or the Go operator's image if *of* is `SETTINGS`.
    """
    chosen = SETTINGS if of is SETTINGS else OURS
    return plans.plan(
        Observed(DNSCONFIG_OBJ, buckets(tuple(records)), cluster, rolled_out(OURS.nameserver_image)), chosen, LIMITS
    )


def states(cluster: Cluster, made: Plan) -> Iterator[Cluster]:
    """Yield the *cluster* before the plan *made*, and after each write and each deletion of the plan."""
    yield cluster
    for step in made.steps:
        cluster = after(cluster, step)
        yield cluster


def after(cluster: Cluster, step: Step) -> Cluster:
    if isinstance(step, Deletion):
        return {shard: live for shard, live in cluster.items() if live is not step.obj}
    assert isinstance(step, Child | Patch), "nobody else writes records"
    name, body = (step.key.name, step.body) if isinstance(step, Patch) else (step.obj["metadata"]["name"], step.obj)
    shard = shard_named(name)
    assert shard is not None
    notes = {key: value for key, value in (body["metadata"].get("annotations") or {}).items() if value}
    return {
        **cluster,
        shard: obj(CONFIGMAP, Key("tailscale", name), {"data": body["data"]}, **METADATA, annotations=notes),
    }


def carried_out(cluster: Cluster, made: Plan) -> Cluster:
    *_, last = states(cluster, made)
    return last


def read(cluster: Cluster) -> Records | None:
    """Return the records that a nameserver reads from *cluster* at its start, or None if they are no whole set."""
    return merge(parsed(live["data"]["records.json"]) for live in cluster.values())


def served(cluster: Cluster) -> Records:
    """Return the records that a nameserver reads from the shards in *cluster*.

    The test fails if they are no whole set.
    """
    records = read(cluster)
    assert records is not None
    return records


def ip4(records: Iterable[Record]) -> Object:
    return {record.name: list(record.ip4) for record in records}


@pytest.mark.parametrize(("names", "configmaps"), [(0, 1), (20, 1), (30, 2), (60, 4), (110, 8), (220, 16), (400, 32)])
def test_the_number_of_configmaps_grows_with_the_number_of_records(names: int, configmaps: int) -> None:
    cluster = carried_out({}, sharded({}, named(names)))
    assert sorted(cluster) == [*range(configmaps)]
    assert [live["metadata"]["name"] for live in cluster.values()][-1] == "dnsrecords"
    assert max(len(live["data"]["records.json"]) for live in cluster.values()) <= LIMITS.split
    records = served(cluster)
    assert (records.ip4, records.serial, records.zones) == (ip4(named(names)), 1, ["ts.net"])


@pytest.mark.parametrize("names", [0, 20, 220])
def test_the_plan_of_the_records_does_not_write_a_shard_that_is_correct_already(names: int) -> None:
    cluster = carried_out({}, sharded({}, named(names)))
    assert sharded(cluster, named(names)) == RIGHT


@pytest.mark.parametrize("shard", [0, 1, 7])
def test_a_shard_that_is_deleted_or_edited_is_repaired_and_no_other_shard_is_written(shard: int) -> None:
    cluster = carried_out({}, sharded({}, named(110)))
    without = {number: live for number, live in cluster.items() if number != shard}
    edited = {**cluster, shard: {**cluster[shard], "data": {"records.json": "{}"}}}
    for harmed in (without, edited):
        made = sharded(harmed, named(110))
        assert (len(made.steps), deletions_of(made)) == (1, [])
        assert document_of(made) == {**json.loads(cluster[shard]["data"]["records.json"]), "serial": 2}


def test_a_configmap_with_a_number_above_the_highest_shard_is_deleted() -> None:
    cluster = carried_out({}, sharded({}, named(110)))
    more = obj(CONFIGMAP, Key("tailscale", "dnsrecords-8"), {"data": cluster[3]["data"]}, **METADATA)
    assert sharded({**cluster, 8: more}, named(110)).steps == [Deletion(CONFIGMAP, more, unchanged=True)]
    assert sharded({**cluster, 8: deleting(more)}, named(110)) == RIGHT


def test_the_plan_waits_while_a_shard_is_being_deleted() -> None:
    cluster = carried_out({}, sharded({}, named(110)))
    assert sharded({**cluster, 5: deleting(cluster[5])}, named(100)) == Plan()


def test_all_shards_start_again_at_serial_1_when_the_serial_would_overflow() -> None:
    def aged(live: Object) -> Object:
        text = live["data"]["records.json"].replace('"serial":1', '"serial":4294967295')
        return {**live, "data": {"records.json": text}}

    last = {shard: aged(live) for shard, live in carried_out({}, sharded({}, named(110))).items()}
    records = served(carried_out(last, sharded(last, named(109))))
    assert (records.serial, len(records.ip4)) == (1, 109)


CHANGES = [
    *((20, 30), (30, 60), (60, 110), (110, 30), (30, 5), (20, 220)),
    *(pytest.param(*each, marks=pytest.mark.thorough) for each in ((20, 400), (220, 400), (400, 60), (400, 0))),
]


@pytest.mark.parametrize(("before", "later"), CHANGES)
def test_during_a_split_or_a_merge_a_nameserver_reads_all_old_shards_or_all_new_shards_or_waits(
    before: int, later: int
) -> None:
    start = carried_out({}, sharded({}, named(before)))
    made = sharded(start, named(later, "192.0.2.2"))
    seen = [read(cluster) for cluster in states(start, made)]
    old, new = ip4(named(before)), ip4(named(later, "192.0.2.2"))
    switch = len(made.steps) - len(deletions_of(made))  # shard 0 is written last
    assert all(records.ip4 == old for records in seen[:switch] if records)
    assert [records.ip4 if records else None for records in seen[switch:]] == [new] * (1 + len(deletions_of(made)))


@pytest.mark.parametrize(("before", "later"), CHANGES)
def test_if_the_operator_crashes_during_a_split_its_next_plan_gives_the_nameserver_all_new_shards(
    before: int, later: int
) -> None:
    start, wanted = carried_out({}, sharded({}, named(before))), named(later, "192.0.2.2")
    for crashed in states(start, sharded(start, wanted)):
        held = served(start)
        for cluster in states(crashed, sharded(crashed, wanted)):
            held = read(cluster) or held
            assert held.ip4 in (ip4(named(before)), ip4(wanted))
        assert (held.ip4, sharded(cluster, wanted)) == (ip4(wanted), RIGHT)


SIZES = st.lists(
    st.tuples(st.integers(0, 130), st.sampled_from(["192.0.2.1", "192.0.2.2"]), st.integers(0, 40)), max_size=6
)


@given(SIZES)
def test_no_name_vanishes_if_plans_are_interrupted_and_other_plans_follow(
    history: list[tuple[int, str, int]],
) -> None:
    """Carry out only some writes of each plan, and let the next plan start from the resulting ConfigMaps.

    *history* has, for each plan, the number of names, their address, and the number of writes that are carried out.
    """
    cluster = carried_out({}, sharded({}, named(60)))
    held, always = served(cluster), 60
    for names, address, writes in [*history, (50, "192.0.2.9", 99)]:
        always = min(always, names)
        for reached in list(states(cluster, sharded(cluster, named(names, address))))[: writes + 1]:
            cluster, held = reached, read(reached) or held
            assert {record.name for record in named(always)} <= held.ip4.keys()
    assert held.ip4 == ip4(named(50, "192.0.2.9"))


def noted(cluster: Cluster) -> str | None:
    note: str | None = cluster[0]["metadata"]["annotations"].get(ANNOTATION_LEFT_OUT)
    return note


def test_the_go_operators_image_gets_one_configmap_that_says_how_many_names_are_left_out() -> None:
    cluster = carried_out({}, sharded({}, named(100), of=SETTINGS))
    assert [*cluster] == [0]
    assert LIMITS.full - 160 < len(cluster[0]["data"]["records.json"]) <= LIMITS.full
    assert noted(cluster) == str(100 - len(served(cluster).ip4)) != "100"
    assert sharded(cluster, named(100), of=SETTINGS) == RIGHT


def test_names_that_are_served_stay_in_a_full_configmap_and_other_names_get_the_remaining_room() -> None:
    cluster = carried_out({}, sharded({}, named(100)[60:], of=SETTINGS))
    records = served(carried_out(cluster, sharded(cluster, named(100), of=SETTINGS)))
    assert {record.name for record in named(100)[60:]} <= records.ip4.keys()


def test_a_configmap_of_records_loses_the_annotation_about_left_out_names_when_it_has_room_again() -> None:
    cluster = carried_out({}, sharded({}, named(100), of=SETTINGS))
    assert noted(carried_out(cluster, sharded(cluster, named(20), of=SETTINGS))) is None
    assert noted(carried_out(cluster, sharded(cluster, named(100)))) is None


def test_after_the_last_split_shards_grow_to_their_limit_and_further_names_are_left_out_and_counted() -> None:
    larger = carried_out({}, sharded({}, named(1000)))
    assert LIMITS.split < max(len(live["data"]["records.json"]) for live in larger.values()) <= LIMITS.full
    assert noted(larger) is None
    full = carried_out(larger, sharded(larger, named(2000)))
    records = served(full)
    assert noted(full) == str(2000 - len(records.ip4)) != "0"
    assert {record.name for record in named(1000)} <= records.ip4.keys()
    assert sharded(full, named(2000)) == RIGHT


@pytest.mark.parametrize(
    "nameserver",
    [
        None,
        rolled_out(SETTINGS.nameserver_image),
        rolled_out(OURS.nameserver_image, observedGeneration=1),
        rolled_out(OURS.nameserver_image, updatedReplicas=1),
        rolled_out(OURS.nameserver_image, availableReplicas=1),
        rolled_out(OURS.nameserver_image, replicas=3),
        {**rolled_out(OURS.nameserver_image), "status": {}},
    ],
    ids=["none", "another image", "not seen yet", "not all new", "not all up", "an old one left", "nothing known"],
)
def test_records_are_split_only_when_all_pods_of_the_nameserver_read_shards(nameserver: Object | None) -> None:
    def planned(cluster: Cluster) -> Plan:
        return plans.plan(Observed(DNSCONFIG_OBJ, buckets(tuple(named(40))), cluster, nameserver), OURS, LIMITS)

    one = carried_out({}, planned({}))
    several = carried_out({}, sharded({}, named(40)))
    assert (sorted(one), noted(one), planned(one)) == ([0], None, RIGHT)
    assert planned(several) == RIGHT  # split records stay split while the nameserver is rolled out


def test_a_change_of_the_image_merges_the_shards_or_splits_the_document() -> None:
    several = carried_out({}, sharded({}, named(40)))
    one = carried_out(several, sharded(several, named(40), of=SETTINGS))
    assert (len(several), len(one)) == (2, 1)
    assert carried_out(one, sharded(one, named(40))).keys() == several.keys()


@pytest.mark.parametrize("of", [SETTINGS, OURS])
@pytest.mark.parametrize(
    "invalid",
    [live_dnsconfig(nameserver={"replicas": -1}), live_dnsconfig(annotations={"tailscale.com/nameserver": "mine"})],
)
def test_the_records_of_an_invalid_dnsconfig_are_neither_split_nor_merged(invalid: Object, of: object) -> None:
    cluster = carried_out({}, sharded({}, named(60), of=of))
    swapped = OURS if of is SETTINGS else SETTINGS
    made = plans.plan(Observed(invalid, buckets(tuple(named(60))), cluster), swapped, LIMITS)
    assert (len(carried_out(cluster, made)) > 1) is (of is OURS)


@pytest.mark.parametrize(("wait", "requeue"), [(0.5, 0.5), (inf, None)])
def test_nothing_is_written_while_the_plan_of_the_records_waits(wait: float, requeue: float | None) -> None:
    observed = Observed(DNSCONFIG_OBJ, buckets((UP,)), wait=wait)
    assert plans.plan(observed, SETTINGS) == Plan(requeue_after=requeue)


def test_without_a_dnsconfig_the_plan_of_the_records_writes_nothing() -> None:
    assert plans.plan(Observed(None, buckets((UP,)), {0: configmap(SERVED)}), SETTINGS) == Plan()


def test_a_refused_write_of_the_records_is_reported_by_an_event() -> None:
    refusal = Refusal("no ConfigMaps for you")
    notes = [Note("Warning", "RecordsNotWritten", "no ConfigMaps for you")]
    assert plans.failed(DNSCONFIG_OBJ, refusal) == Plan(reports=[Report(DNSCONFIG_OBJ, notes=notes)])
