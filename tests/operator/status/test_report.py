"""The report of an operator that runs: what it says of objects, and what a request costs the cluster."""

import json
from typing import Any

import aiohttp
from clustersim.processes import free_port
from tsoperator.api.objects import SERVICE, Key

from tests.support.manifests import DOMAIN, FQDN, backend, egress, ingress
from tests.support.objects import obj
from tests.support.operator import World, running_operator

PORTS = {"spec": {"ports": [{"port": 80}]}}


async def rows(address: str) -> dict[str, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}/status") as response:
        report = json.loads(await response.text())
    return {f"{each['kind']} {each['name']}": each for each in report["objects"]}


async def test_the_report_has_a_row_for_each_object_and_a_request_for_it_asks_nobody(world: World) -> None:
    await world.apply(egress(), backend(), ingress())
    await world.apply(obj(SERVICE, Key("default", "typo"), PORTS, annotations={"tailscale.com/expsoe": "true"}))
    address = f"127.0.0.1:{free_port()}"
    async with running_operator(world, status_address=address):
        await world.joined(egress())
        await world.joined(ingress())
        before = world.requests().copy(), world.control.requests.copy()
        found = await rows(address)
        assert (world.requests(), world.control.requests) == before
    row = found["Service db"]
    assert {key: row[key] for key in ("role", "names", "inCluster", "ready", "wanted", "verdict")} == {
        "role": "egress",
        "names": [FQDN],
        "inCluster": "db.default.svc.cluster.local",
        "ready": 1,
        "wanted": 1,
        "verdict": "ok",
    }
    assert found["Ingress web"]["names"] == [f"web.{DOMAIN}"]
    assert found["Service typo"]["reason"] == "IgnoredAnnotation"
    assert found.keys() == {"Service db", "Service typo", "Ingress web"}
