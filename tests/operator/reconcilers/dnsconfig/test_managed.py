"""The configuration of the cluster's DNS while a DNSConfig asks the operator to manage it."""

from dataclasses import replace

import pytest
from clustersim import objects
from clustersim.faults import Ban, Failure
from clustersim.furniture import COREFILE
from tsoperator.api.names import FINALIZER
from tsoperator.api.objects import CONFIGMAP, SERVICE, Object, key_of

from tests.operator.dns.cluster.objects import workload
from tests.support.manifests import backend, dnsconfig
from tests.support.operator import World, running_operator

CONFIGURED = "ClusterDNSConfigured"
COREDNS: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "kube-system", "name": "coredns"}}
MANUAL = {"spec": {"clusterDNS": {"mode": "Manual"}}}
THEIRS = "example.org {\n    whoami\n}\n"


def managed(name: str = "dns") -> Object:
    asked = dnsconfig(name)
    return {**asked, "spec": {**asked["spec"], "clusterDNS": {"mode": "Managed"}}}


async def corefile(world: World) -> str:
    return str((await world.look(COREDNS))["data"]["Corefile"])


async def write(world: World, text: str) -> None:
    """Write the Corefile as somebody other than the operator."""
    await world.change(COREDNS, {"data": {"Corefile": text}})


async def told(world: World, reason: str) -> str:
    """Wait until the condition about the cluster's DNS configuration has *reason*, and return its message."""
    await world.becomes(lambda: world.reason(managed(), CONFIGURED), reason)
    found = await world.condition(managed(), CONFIGURED)
    assert found is not None
    return found.message


async def configured(world: World) -> tuple[str, str]:
    """Wait until our stub domain is in the Corefile, and return the whole Corefile and our part of it."""
    await told(world, "StubDomainWritten")
    text = await corefile(world)
    return text, text.removeprefix(COREFILE)


async def address(world: World) -> str:
    return str((await world.look(managed()))["status"]["nameserver"]["ip"])


async def delete(world: World) -> None:
    await world.delete(managed())
    await world.eventually(lambda: world.gone(managed()))


async def snippet(world: World) -> str:
    status = (await world.look(dnsconfig())).get("status") or {}
    return str(status.get("clusterDNS", {}).get("snippet", ""))


async def test_the_corefile_forwards_to_the_nameserver_until_the_mode_is_manual(world: World) -> None:
    await world.apply(managed())
    text, ours = await configured(world)
    assert text == COREFILE + ours
    assert f"forward . {await address(world)}\n" in ours
    assert not await world.writes_when_left_alone()
    await world.change(managed(), MANUAL)
    await world.becomes(lambda: corefile(world), COREFILE)
    await world.becomes(lambda: world.condition(managed(), CONFIGURED), None)
    assert f"forward . {await address(world)}\n" in await snippet(world)


@pytest.mark.parametrize(
    ("platform", "name", "before"),
    [
        ("KubeDNS", "kube-dns", {}),
        ("CoreDNSCustom", "coredns-custom", {"their.server": THEIRS}),
        ("CoreDNSCustom", "coredns-custom", None),
    ],
)
async def test_the_stub_domain_is_in_the_configmap_for_the_chosen_platform_until_the_dnsconfig_is_deleted(
    world: World, platform: str, name: str, before: Object | None
) -> None:
    place = {**COREDNS, "metadata": {**COREDNS["metadata"], "name": name}}

    async def data() -> Object | None:
        found = await world.find(CONFIGMAP, name, "kube-system")
        return found.get("data") or {} if found else None

    await write(world, COREFILE + "import /etc/coredns/custom/*.server\n")
    if before is not None:
        await world.apply({**place, "data": before})
    asked = managed()
    asked["spec"]["clusterDNS"]["platform"] = platform
    await world.apply(asked)
    await told(world, "StubDomainWritten")
    assert await address(world) in str(await data())
    await delete(world)
    assert await data() == before
    if before is not None:
        await world.delete(place)


@pytest.mark.simulated
async def test_the_operator_writes_no_stub_domain_before_the_first_list_of_devices_shows_the_zone(
    cluster: World,
) -> None:
    cluster.peer()
    cluster.control.latency = 0.2
    with cluster.store.subscribe(objects.CONFIGMAP) as changes:
        async with running_operator(cluster):
            await cluster.apply(managed())
            await configured(cluster)
        found = [key_of(each.object).name for each in await changes.batch()]
    assert found.count("coredns") == 1
    assert "tail1234.ts.net:53 {" in await corefile(cluster)


async def test_the_operator_restores_a_removed_stub_domain_and_keeps_the_edits_of_others(world: World) -> None:
    await world.apply(managed())
    text, ours = await configured(world)
    await write(world, COREFILE)
    await world.becomes(lambda: corefile(world), text)
    await write(world, THEIRS + text)
    await world.settled()
    assert await corefile(world) == THEIRS + text
    await write(world, THEIRS)
    await world.becomes(lambda: corefile(world), THEIRS + ours)
    await delete(world)
    assert await corefile(world) == THEIRS


@pytest.mark.parametrize("is_kept", [True, False])
async def test_without_the_reload_plugin_an_event_says_how_to_restart_coredns_after_the_stub_domain_is_removed(
    cluster: World, is_kept: bool
) -> None:
    silent = COREFILE.replace("    reload\n", "")
    await write(cluster, silent)
    async with running_operator(cluster):
        await cluster.apply(managed())
        await told(cluster, "RestartNeeded")
        assert "RestartNeeded" not in await cluster.events(managed())
        await (cluster.change(managed(), MANUAL) if is_kept else cluster.delete(managed()))
        await cluster.becomes(lambda: corefile(cluster), silent)
        await cluster.settled()
        words = (await cluster.events(managed()))["RestartNeeded"]
        assert words.startswith("the stub domain is taken out of the configuration of the cluster's DNS. CoreDNS")
        assert words.endswith("kubectl -n kube-system rollout restart deployment coredns")


@pytest.mark.simulated
async def test_an_edit_of_the_corefile_during_the_operators_write_is_kept(world: World) -> None:
    world.sim.faults.latency = 0.1  # the API server executes a write 0.1 s after it has counted it
    await world.apply(managed())

    async def is_writing() -> bool:
        return bool(world.sim.writes["tsoperator", "patch", "configmaps"])

    await world.eventually(is_writing)
    world.sim.store.merge(objects.CONFIGMAP, "kube-system", "coredns", {"data": {"Corefile": THEIRS + COREFILE}})
    world.sim.faults.clear()
    text, _ = await configured(world)
    assert text.startswith(THEIRS)


@pytest.mark.simulated
async def test_a_recreated_nameserver_gets_its_old_address_or_the_stub_domain_gets_the_new_address(
    world: World,
) -> None:
    await world.apply(managed())
    text, before = await configured(world)
    old = await address(world)
    await delete(world)
    await world.becomes(lambda: world.find(SERVICE, "nameserver"), None)
    await world.apply(managed())
    assert (await configured(world))[0] == text
    world.sim.store.delete(objects.SERVICE, "tailscale", "nameserver")
    world.sim.store.create(objects.SERVICE, backend("taker", clusterIP=old))

    async def moved() -> bool:
        return await address(world) != old and await address(world) in await corefile(world)

    await world.eventually(moved)
    _, after = await configured(world)
    assert after == before.replace(old, await address(world))


@pytest.mark.simulated
@pytest.mark.parametrize("zone", ["ts.net", "tail1234.ts.net"])
@pytest.mark.parametrize(
    ("refusal", "given"),
    [
        (None, True),
        (Failure(422, 1, "create", "services"), False),
        (Failure(403, 1, "create", "services"), True),
        (Failure(422, 12, "create", "deployments"), True),
    ],
)
async def test_a_new_nameserver_gets_the_address_to_which_the_clusters_dns_forwards_if_the_address_is_free(
    cluster: World, zone: str, refusal: Failure | None, given: bool
) -> None:
    cluster.peer()
    cluster.control.latency = 0.1
    await write(cluster, f"{COREFILE}{zone} {{\n    forward . 10.96.4.3\n}}\n")
    if refusal:
        cluster.sim.faults.fail(replace(refusal))
    async with running_operator(cluster):
        await cluster.apply(dnsconfig())
        await cluster.eventually(lambda: snippet(cluster))
        assert (await address(cluster) == "10.96.4.3") is given
        assert ("NameserverCreationFailed" in await cluster.events(dnsconfig())) is bool(refusal and given)


async def test_the_operator_does_not_change_a_faulty_corefile_until_somebody_repairs_it(cluster: World) -> None:
    broken = ".:53 {\n    errors\n"
    await write(cluster, broken)
    async with running_operator(cluster):
        await cluster.apply(managed())
        message = await told(cluster, "CorefileUnreadable")
        assert (await cluster.events(managed()))["CorefileUnreadable"] == message
        assert not await cluster.writes_when_left_alone()
        assert await corefile(cluster) == broken
        await write(cluster, COREFILE)
        await configured(cluster)


@pytest.mark.simulated
async def test_a_restored_stub_domain_is_removed_only_if_the_operator_can_see_that_there_is_no_dnsconfig(
    world: World,
) -> None:
    await world.apply(managed())
    text, _ = await configured(world)
    await delete(world)
    await world.settled()
    await write(world, text)
    await world.becomes(lambda: corefile(world), COREFILE)
    world.sim.faults.forbid(Ban("dnsconfigs"))
    world.sim.faults.drop_watches()
    await world.settled()
    await write(world, text)
    await world.settled()
    assert await corefile(world) == text


def rights_to(name: str) -> list[Object]:
    """Return the roles that the chart adds if the cluster's DNS reads a ConfigMap with an unusual *name*."""
    configmap = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name]}
    return [
        {"metadata": {}, "rules": [{**configmap, "verbs": ["list", "watch"]}]},
        {"metadata": {"namespace": "kube-system"}, "rules": [{**configmap, "verbs": ["get", "patch"]}]},
    ]


@pytest.mark.simulated  # a real cluster would run the Deployment that the test makes up
async def test_the_operator_edits_the_configmap_that_coredns_mounts_only_if_rbac_allows_it(
    cluster: World,
) -> None:
    base = {**COREDNS, "metadata": {"namespace": "kube-system", "name": "dns-base"}, "data": {"Corefile": COREFILE}}
    async with running_operator(cluster):
        await cluster.apply(base, managed())
        await configured(cluster)
        await cluster.apply(workload("dns-base"))
        assert "operatorConfig.clusterDNSConfigMap of the chart to dns-base" in await told(cluster, "NotPermitted")
    cluster.sim.rights.give(*rights_to("dns-base"))
    async with running_operator(cluster, cluster_dns_configmap="dns-base"):
        await told(cluster, "StubDomainWritten")
        assert str((await cluster.look(base))["data"]["Corefile"]).startswith(f"{COREFILE}# BEGIN")
        assert not await cluster.writes_when_left_alone()
        await delete(cluster)
        assert (await cluster.look(base))["data"]["Corefile"] == await corefile(cluster) == COREFILE


async def test_without_the_chart_value_manageclusterdns_a_stub_domain_is_neither_written_nor_removed(
    cluster: World,
) -> None:
    async with running_operator(cluster, manage_cluster_dns=False):
        await cluster.apply(managed())
        assert "operatorConfig.manageClusterDNS" in await told(cluster, "NotPermitted")
        assert await corefile(cluster) == COREFILE
    async with running_operator(cluster):
        await configured(cluster)
    async with running_operator(cluster, manage_cluster_dns=False):
        await cluster.delete(managed())
        await told(cluster, "NotPermitted")
        assert FINALIZER in (await cluster.look(managed()))["metadata"]["finalizers"]
        await write(cluster, COREFILE)
        await cluster.eventually(lambda: cluster.gone(managed()))


@pytest.mark.simulated
@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [(403, "NotPermitted", "set operatorConfig.manageClusterDNS"), (422, "NotWritten", "")],
)
async def test_a_refused_write_of_the_stub_domain_is_reported_and_the_nameserver_is_still_ready(
    world: World, status: int, reason: str, words: str
) -> None:
    world.sim.faults.fail(Failure(status, 10**6, "patch", "configmaps"))
    await world.apply(managed())
    assert words in await told(world, reason)
    assert await world.reason(managed(), "NameserverReady") == "NameserverCreated"
    assert "CoreDNS" in str((await world.look(managed()))["status"]["clusterDNS"])
    world.sim.faults.clear()
    await configured(world)


@pytest.mark.simulated
async def test_a_deleted_dnsconfig_stays_while_the_operator_can_no_longer_read_its_stub_domain(cluster: World) -> None:
    async with running_operator(cluster):
        await cluster.apply(managed())
        await configured(cluster)
    cluster.sim.faults.forbid(Ban("configmaps", "kube-system", "list"))
    async with running_operator(cluster):
        await cluster.delete(managed())

        async def is_told() -> bool:
            return "NotPermitted" in await cluster.events(managed())

        await cluster.eventually(is_told)
        await cluster.settled()
        assert not await cluster.gone(managed())
    cluster.sim.faults.clear()
    async with running_operator(cluster):
        await cluster.eventually(lambda: cluster.gone(managed()))
    assert await corefile(cluster) == COREFILE


async def test_the_second_dnsconfig_takes_over_the_stub_domain_when_the_first_is_deleted(world: World) -> None:
    await world.apply(managed(), managed("second"))
    await configured(world)
    await delete(world)
    await world.becomes(lambda: world.reason(managed("second"), CONFIGURED), "StubDomainWritten")
    ip = (await world.look(managed("second")))["status"]["nameserver"]["ip"]
    assert f"forward . {ip}" in (await corefile(world)).removeprefix(COREFILE)


async def test_the_deletion_of_the_second_dnsconfig_leaves_the_stub_domain_of_the_first(world: World) -> None:
    await world.apply(managed(), managed("second"))
    text, _ = await configured(world)
    await world.delete(managed("second"))
    await world.eventually(lambda: world.gone(managed("second")))
    assert await corefile(world) == text
