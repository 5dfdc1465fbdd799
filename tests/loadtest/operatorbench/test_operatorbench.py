"""Tests of the benchmark of operators: the goals for its runs, and the reports on them. They need no bed."""

import json
from base64 import b64encode
from typing import Any

import pytest
from operatorbench.audit import Entry
from operatorbench.cluster import addressed, is_reported
from operatorbench.goals import GOALS, GROUP_GOALS, HOSTING_GOALS, STEADY_GOALS, Measured, Verdict, judged
from operatorbench.groupcluster import Proxy, addresses, profile, report, service
from operatorbench.hostingcluster import domains, exposed, is_exposed, is_served, newest_config
from operatorbench.hostingcluster import report as host_report
from operatorbench.measure import (
    Grouped,
    Hosting,
    Kind,
    Runs,
    Sample,
    Steady,
    Step,
    by_write,
    configmap_bytes,
    configmap_writes,
)
from operatorbench.process import busy_seconds, peak_mb
from operatorbench.report import document, groups, hosting, runs, steady, verdicts, writes
from tsoperator.proxy.entries import read_report
from tsoperator.proxy.hosting import Mapped, read_host_report
from tsoperator.proxy.secret import advertised_services, slim

WRITES = {"create secrets": 10, "patch services": 20, "create events": 5, "update leases": 3}


def step(seconds: float = 1.0, cpu_seconds: float = 0.1, **changes: Any) -> Step:
    figures: dict[str, Any] = {"writes": WRITES, "reads": 10, "others": 0.25}
    return Step(seconds=seconds, cpu_seconds=cpu_seconds, **{**figures, **changes})


def sample(kind: Kind = Kind.OURS, run: int = 1, **changes: Any) -> Sample:
    figures: dict[str, Any] = {
        "services": 10, "made": step(), "reported_seconds": 1.5, "idle": step(30, 0.3, writes={}),
        "removed": step(), "rss_mb": 90.0, "peak_mb": 95.0,
    }  # fmt: skip
    return Sample(kind=kind, run=run, **{**figures, **changes})


def pair(run: int = 1, **changes: Any) -> Steady:
    """Return the figures of a run with a leader and a standby."""
    figures: dict[str, Any] = {
        "services": 10, "made": step(), "rss_mb": 90.0, "every_seconds": 0.25, "standby_cpu_seconds": 0.02,
        "standby_rss_mb": 80.0, "configmap_bytes": 50_000,
    }  # fmt: skip
    return Steady(kind=Kind.OURS, run=run, **{**figures, **changes})


def grouped(kind: Kind = Kind.OURS, run: int = 1, **changes: Any) -> Grouped:
    """Return the figures of a run with two ProxyGroups of type egress."""
    figures: dict[str, Any] = {
        "services": 10, "made": step(), "rss_mb": 90.0, "groups": 2, "configmap_writes": {"a": 40, "b": 9},
        "served": step(), "idle": step(30, writes={}), "entry_seconds": [0.3, 0.1], "slice_seconds": [0.2, 0.3],
        "removed": step(),
    }  # fmt: skip
    return Grouped(kind=kind, run=run, **{**figures, **changes})


def hosted(kind: Kind = Kind.OURS, run: int = 1, **changes: Any) -> Hosting:
    """Return the figures of a run with two ProxyGroups that expose Ingresses and Services."""
    figures: dict[str, Any] = {
        "services": 10, "ingresses": 6, "made": step(), "rss_mb": 90.0, "calls": {"PUT /x": 10, "GET /x": 20},
        "idle": step(300, writes={}), "idle_calls": {"GET /x": 2},
    }  # fmt: skip
    return Hosting(kind=kind, run=run, **{**figures, **changes})


def cells(table: str) -> list[list[str]]:
    """Return the cells in the rows of a Markdown table, without its header and the line below."""
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def verdict(text: str, *samples: Sample) -> Verdict:
    return next(each for each in judged(samples, GOALS) if each.goal.text == text)


def test_the_operator_benchmark_does_not_count_events_and_leases_as_writes() -> None:
    assert step().counted == 30
    assert sample().writes == 3.0


def test_the_operator_benchmark_counts_patches_of_pods_separately_from_other_writes() -> None:
    touching = step(writes={"patch pods": 2, "patch services": 20, "update pods": 1})
    assert (touching.counted, touching.touches) == (21, 2)
    assert ["touches of Pods a Service made", "0.20"] in cells(groups([grouped(made=touching)]))
    assert ["idle: API writes, leases apart", "23"] in cells(groups([grouped(idle=touching)]))


def test_the_figures_of_the_operator_benchmark_are_divided_by_the_number_of_services() -> None:
    alone = sample(made=step(cpu_seconds=0.12), removed=step(cpu_seconds=0.03, writes={"delete secrets": 5}))
    assert (alone.cpu_ms, alone.removal_cpu_ms, alone.removal_writes) == pytest.approx((12.0, 3.0, 0.5))
    seen = pair(made=step(cpu_seconds=0.12, writes={"patch configmaps": 19, "create configmaps": 1, "create pods": 9}))
    figures = (seen.cpu_ms, seen.standby_cpu_ms, seen.configmap_writes, seen.configmap_kb)
    assert figures == pytest.approx((12.0, 2.0, 2.0, 5.0))


def entry(verb: str = "patch", user: str = "operatorbench", resource: str = "configmaps", **more: Any) -> Entry:
    return {"verb": verb, "user": {"username": user}, "objectRef": {"resource": resource}, **more}


def test_the_written_bytes_of_configmaps_are_those_in_the_operators_requests() -> None:
    sent = {"data": {"records.json": "ä"}}  # 30 bytes
    log = [
        entry("create", requestObject=sent),
        entry(requestObject=sent),
        entry(user="controllers", requestObject=sent),
        entry(resource="secrets"),
        entry("delete", requestObject={"preconditions": {}}),
        entry("watch"),
    ]
    assert configmap_bytes(log, "operatorbench") == 2 * 30


def test_writes_of_a_configmap_are_counted_by_the_name_of_the_configmap() -> None:
    def named(name: str) -> dict[str, Any]:
        return {"objectRef": {"resource": "configmaps", "name": name}}

    log = [
        entry("create", requestObject={"metadata": {"name": "a"}}),
        entry("update", **named("a")),
        entry("patch", **named("b")),
        entry("update", "controllers", **named("a")),
        entry("update", resource="secrets"),
        entry("get", **named("a")),
    ]
    assert configmap_writes(log, "operatorbench") == {"a": 2, "b": 1}


def test_the_operator_benchmark_lists_the_most_frequent_writes_first() -> None:
    counted = by_write({("patch", "services"): 2, ("create", "secrets"): 9, ("delete", "secrets"): 0})
    assert list(counted.items()) == [("create secrets", 9), ("patch services", 2)]


@pytest.mark.parametrize(
    ("text", "met", "missed"),
    [
        ("all StatefulSets made", {"made": step(1)}, {"made": step(1.04)}),
        ("CPU a Service made", {"made": step(1, 0.6)}, {"made": step(1, 0.61)}),
        ("all Services removed", {"removed": step(1)}, {"removed": step(1.1)}),
        ("memory with all of them", {"rss_mb": 130}, {"rss_mb": 131}),
        ("API writes a Service made", {"made": step(writes={"patch x": 60})}, {"made": step(writes={"patch x": 61})}),
        ("API writes when idle", {"idle": step(writes={"update leases": 9})}, {"idle": step(writes={"patch x": 1})}),
    ],
)
def test_a_goal_of_the_operator_benchmark_is_met_by_a_figure_up_to_its_limit(
    text: str, met: dict[str, Any], missed: dict[str, Any]
) -> None:
    theirs = sample(Kind.GO, 2, made=step(8, 0.5), removed=step(10), rss_mb=100)
    assert [verdict(text, sample(**changes), theirs).missed for changes in (met, missed)] == [False, True]


@pytest.mark.parametrize(
    ("text", "met", "missed"),
    [
        ("all entries written", {"made": step(1.5)}, {"made": step(1.6)}),
        ("writes of a ConfigMap", {"configmap_writes": {"a": 40}}, {"configmap_writes": {"a": 1, "b": 41}}),
        ("CPU a Service made", {"made": step(cpu_seconds=0.12)}, {"made": step(cpu_seconds=0.13)}),
        ("API writes a Service made", {"made": step(writes={"patch x": 70})}, {"made": step(writes={"patch x": 71})}),
        ("all Services removed", {"removed": step(1.5)}, {"removed": step(1.6)}),
        ("API writes when idle", {"idle": step(writes={})}, {"idle": step(writes={"patch x": 1})}),
        ("entry of one Service, slowest", {"entry_seconds": [0.3]}, {"entry_seconds": [0.31, 0.1]}),
        ("slice after a proxy's report, slowest", {"slice_seconds": [0.3]}, {"slice_seconds": [0.1, 0.31]}),
    ],
)
def test_a_goal_of_the_scenario_with_groups_is_met_by_a_figure_up_to_its_limit(
    text: str, met: dict[str, Any], missed: dict[str, Any]
) -> None:
    theirs = grouped(Kind.GO, 2, made=step(10), removed=step(10))
    found = [judged([grouped(**changes), theirs], GROUP_GOALS) for changes in (met, missed)]
    assert [each.missed for all_ in found for each in all_ if each.goal.text == f"groups: {text}"] == [False, True]


@pytest.mark.parametrize(
    ("text", "met", "missed"),
    [
        ("all statuses right", {"made": step(1.5)}, {"made": step(1.6)}),
        ("CPU an object", {"made": step(cpu_seconds=0.12)}, {"made": step(cpu_seconds=0.13)}),
        ("API writes an object", {"made": step(writes={"patch x": 70})}, {"made": step(writes={"patch x": 71})}),
        ("control-server calls an object", {"calls": {"PUT /x": 30}}, {"calls": {"PUT /x": 30, "GET /x": 1}}),
        ("memory with all of them", {"rss_mb": 130}, {"rss_mb": 131}),
        ("API writes when idle", {"idle": step(writes={})}, {"idle": step(writes={"patch pods": 1})}),
        ("control-server calls when idle", {"idle_calls": {"GET /x": 2}}, {"idle_calls": {"GET /x": 2, "GET /y": 1}}),
    ],
)
def test_a_goal_of_the_scenario_with_exposed_objects_is_met_by_a_figure_up_to_its_limit(
    text: str, met: dict[str, Any], missed: dict[str, Any]
) -> None:
    theirs = hosted(Kind.GO, 2, made=step(10))
    found = [judged([hosted(**changes), theirs], HOSTING_GOALS) for changes in (met, missed)]
    assert [each.missed for all_ in found for each in all_ if each.goal.text == f"hosting: {text}"] == [False, True]


@pytest.mark.parametrize(
    ("leader", "standby", "missed"),
    [(0.15, 0.03, [False] * 2), (0.16, 0.03, [True, False]), (0.15, 0.04, [False, True])],
)
def test_the_leader_and_the_standby_are_judged_separately(leader: float, standby: float, missed: list[bool]) -> None:
    run = pair(made=step(cpu_seconds=leader), standby_cpu_seconds=standby)
    assert [each.missed for each in judged([run], STEADY_GOALS)] == missed


def test_a_scenario_of_the_operator_benchmark_that_was_not_run_is_not_judged() -> None:
    assert judged([], STEADY_GOALS) == []


def test_the_verdict_on_several_runs_uses_the_least_time_and_the_most_memory() -> None:
    twice = [sample(run=1, made=step(2), rss_mb=99.0), sample(run=3, made=step(1), rss_mb=90.0)]
    found = [verdict(text, *twice).ours for text in ("all StatefulSets made", "memory with all of them")]
    assert found == [Measured(1, 3), Measured(99.0, 1)]


def test_a_ratio_is_missing_if_the_other_operator_was_not_measured() -> None:
    found = verdict("all StatefulSets made", sample())
    assert (found.ratio, found.missed) == (None, False)


def test_the_table_of_goals_names_the_runs_that_it_judges() -> None:
    samples = [sample(run=1, made=step(1)), sample(Kind.GO, 2, made=step(10))]
    lines = cells(verdicts(judged(samples, GOALS)))
    assert lines[0] == ["all StatefulSets made", "1.00 s (run 1)", "10.00 s (run 2)", "0.100", "≤ 0.125 x", "met"]
    assert [line[-1] for line in lines] == ["met", "met", "MISSED", "met", "met", "met"]


def test_the_table_of_runs_has_a_column_for_each_run() -> None:
    text = runs([sample(run=1), sample(Kind.GO, 2, made=step(12.345))])
    assert "run 1: ours | run 2: Go" in text
    assert cells(text)[0] == ["all StatefulSets made, s", "1.00", "12.35"]


def test_the_table_of_runs_with_two_replicas_shows_the_standby_and_the_leader_separately() -> None:
    lines = cells(steady([pair(), pair(standby_cpu_seconds=0.031)]))
    assert ["leader: CPU, ms a Service made", "10.0", "10.0"] in lines
    assert ["standby: CPU, ms a Service made", "2.0", "3.1"] in lines
    assert ["kB of ConfigMap written a Service made", "5.0", "5.0"] in lines


def test_the_table_of_the_scenario_with_groups_shows_the_spread_of_times() -> None:
    lines = cells(groups([grouped(), grouped(Kind.GO, configmap_writes={"a": 250})]))
    assert ["writes of a ConfigMap, at most", "40", "250"] in lines
    assert ["one Service more: entry written, s", "0.10 to 0.30", "0.10 to 0.30"] in lines
    assert ["slice has a proxy, s after its report", "0.20 to 0.30", "0.20 to 0.30"] in lines


def test_the_table_of_the_scenario_with_exposed_objects_shows_the_requests_to_the_control_server() -> None:
    text = hosting([hosted(), hosted(Kind.GO, calls={"GET /x": 90})])
    assert "### 6 Ingresses and 4 Services of two ProxyGroups" in text
    lines = cells(text)
    assert ["control-server calls an object", "3.00", "9.00"] in lines
    assert ["control server: PUT /x", "10", "0"] in lines


def test_the_table_of_writes_of_the_operator_benchmark_has_numbers_per_service() -> None:
    lines = cells(writes([sample(made=step(writes={"create secrets": 10}), removed=step(writes={})), sample(Kind.GO)]))
    assert ["made: create secrets", "1.00", "1.00"] in lines
    assert ["removed: patch services", "-", "2.00"] in lines


def test_the_stored_results_of_the_operator_benchmark_are_json_with_every_figure() -> None:
    samples = [sample(run=1), sample(Kind.GO, 2)]
    all_runs = Runs(samples, [grouped(run=3)], [pair(run=4)], [hosted(run=5)])
    kept = json.loads(json.dumps(document({"cores": 2}, all_runs, judged(samples, GOALS))))
    assert [goal["met"] for goal in kept["goals"]] == [False, True, False, True, True, True]
    assert kept["goals"][0]["go"] == {"measured": 1.0, "run": 2}
    assert kept["runs"][0]["made"]["writes"] == WRITES
    assert kept["steady"][0]["standby_cpu_seconds"] == 0.02
    assert kept["groups"][0]["entry_seconds"] == [0.3, 0.1]
    assert kept["hosting"][0]["calls"] == {"PUT /x": 10, "GET /x": 20}
    assert all_runs.next_number == 6


def test_the_operator_benchmark_assigns_services_to_the_groups_in_turn() -> None:
    made = [service(number, f"db-{number}")["metadata"]["annotations"] for number in range(3)]
    assert [each["tailscale.com/proxy-group"] for each in made] == ["even", "odd", "even"]


def test_a_simulated_proxy_reports_the_entries_of_its_configmap() -> None:
    ports = [{"protocol": "TCP", "matchPort": 10437, "targetPort": 5432}]
    target = {"ip": "", "fqdn": "db.tail1234.ts.net"}
    given = {"bench-db": {"healthCheckEndpoint": "http://x", "tailnetTarget": target, "ports": ports}}
    proxy = Proxy("odd", 1)
    read, told = (read_report(json.dumps(each)) for each in (report(proxy, given), {"services": given}))
    assert read is not None
    assert told is not None
    assert read.ip4 == proxy.address
    assert told.entries["bench-db"].forwarded(read.entries["bench-db"])


def secret(**files: str) -> dict[str, Any]:
    """Return a Secret with these *files* as its keys."""
    metadata = {"namespace": "tailscale", "name": "odd-1"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "data": {name: b64encode(text.encode()).decode() for name, text in files.items()},
    }


def test_a_simulated_host_shows_the_services_that_it_advertises_and_its_rules() -> None:
    rule = Mapped("100.64.1.2", "10.96.0.9")
    rules = {"svc:api": {"IPv4Mapping": {"TailscaleServiceIP": rule.address, "ClusterIP": rule.cluster_ip}}}
    proxy = Proxy("odd", 1)
    state = secret(**profile(proxy, ["svc:api"]))
    read = read_host_report(json.dumps(host_report(proxy, rules)))
    assert advertised_services(slim(state)) == ("svc:api",)
    assert read is not None
    assert (read.ip4, read.rules) == (proxy.address, {"svc:api": {4: rule}})


def test_a_simulated_host_reads_the_configuration_for_the_newest_images() -> None:
    files = {"cap-95.hujson": '{"Hostname": "old"}', "cap-107.hujson": '{"Hostname": "new"}'}
    assert newest_config(secret(**files)) == {"Hostname": "new"}
    assert newest_config(secret(other="{}")) == newest_config(None) == {}


def test_a_simulated_host_gets_certificates_for_the_tailscale_services_with_web_handlers() -> None:
    web: dict[str, Any] = {"web.tail1234.ts.net:443": {}, "web.tail1234.ts.net:80": {}}
    assert domains({"svc:web": {"TCP": {}, "Web": web}, "svc:api": {"TCP": {}}}) == ["web.tail1234.ts.net"]


def test_three_of_five_objects_that_the_operator_benchmark_exposes_are_ingresses() -> None:
    names = exposed(5, "a-")
    assert [*names.ingresses, *names.services] == ["a-web-0", "a-web-1", "a-web-2", "a-api-0", "a-api-1"]


@pytest.mark.parametrize(
    ("entry", "served"),
    [
        ({"hostname": "web.tail1234.ts.net", "ports": [{"port": 443}]}, True),
        ({"hostname": "web.tail1234.ts.net", "ports": [{"port": 80}]}, False),
        ({"hostname": "old.tail1234.ts.net", "ports": [{"port": 443}]}, False),
        (None, False),
    ],
)
def test_an_ingress_counts_as_served_once_its_status_has_its_name_and_https(
    entry: dict[str, Any] | None, *, served: bool
) -> None:
    status = {"loadBalancer": {"ingress": [entry] if entry else None}}
    assert is_served({"metadata": {"namespace": "bench", "name": "web"}, "status": status}) is served


@pytest.mark.parametrize(
    ("message", "entry", "counts"),
    [
        ("2/2 proxy backends ready and advertising", {"hostname": "api", "ip": "100.64.1.2"}, True),
        ("1/2 proxy backends ready and advertising", {"hostname": "api", "ip": "100.64.1.2"}, False),
        ("2/2 proxy backends ready and advertising", {"hostname": "api"}, False),
    ],
)
def test_a_service_counts_as_exposed_once_its_status_says_that_both_proxies_advertise_it(
    message: str, entry: dict[str, str], *, counts: bool
) -> None:
    condition = {"type": "TailscaleIngressSvcConfigured", "status": "True", "message": message}
    assert is_exposed({"status": {"conditions": [condition], "loadBalancer": {"ingress": [entry]}}}) is counts


def test_the_operator_benchmark_reads_the_addresses_of_all_endpoints_in_an_endpointslice() -> None:
    assert addresses({"endpoints": [{"addresses": ["10.244.0.1"]}, {"addresses": ["10.244.0.2"]}]}) == {
        "10.244.0.1", "10.244.0.2",
    }  # fmt: skip
    assert addresses({"endpoints": None}) == set()


@pytest.mark.parametrize(
    ("status", "reason", "reported"),
    [("True", "ProxyCreated", True), ("False", "ProxyPending", True), ("False", "ProxyFailed", False)],
)
def test_a_service_counts_as_reported_once_its_status_says_that_its_proxy_exists(
    status: str, reason: str, *, reported: bool
) -> None:
    conditions = [
        {"type": "Other", "status": "True"},
        {"type": "TailscaleProxyReady", "status": status, "reason": reason},
    ]
    assert is_reported({"status": {"conditions": conditions}}) is reported
    assert not is_reported({"status": {"conditions": conditions[:1]}})
    assert not is_reported({"status": {}})


def test_a_name_counts_as_resolved_once_it_has_an_address() -> None:
    records = {"version": "v1alpha1", "ip4": {"a.tail1234.ts.net": ["10.244.0.1"], "b.tail1234.ts.net": []}}
    assert addressed({"data": {"records.json": json.dumps(records)}}) == 1


def test_the_operator_benchmark_reads_memory_and_cpu_time_from_proc() -> None:
    assert peak_mb("Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t   1000 kB\n") == pytest.approx(1.024)
    assert peak_mb("Name:\tkthread\n") == 0
    assert busy_seconds("cpu  100 200 300 9999 9999 10 20 30 0 0\ncpu0 1 1 1\n") == pytest.approx(6.6)
