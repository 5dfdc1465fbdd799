"""What the log of a whole operator tells of the lives of objects, and what it keeps to itself."""

import json
import logging
import re

import pytest
from tsoperator.api.objects import Object

from tests.support.manifests import DOMAIN, connector, egress
from tests.support.operator import World, running_operator

pytestmark = pytest.mark.full

SAID = re.compile("minting an auth key|Connector router: plan: hold")
KEYS = re.compile(r"(ts|hs)key-\w+|AuthKey|Bearer|eyJ\w+")


def told(caplog: pytest.LogCaptureFixture, about: str) -> list[str]:
    """Return what the log has told of an object, and forget everything."""
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    caplog.clear()
    return [line.removeprefix(f"{about}: ") for line in lines if line.startswith(f"{about}: ")]


async def annotated(world: World, service: Object, reason: str, **annotations: str | None) -> None:
    """Annotate *service*, and wait until its condition has the *reason*, and nothing more is to be done."""
    await world.annotate(service, {f"tailscale.com/{name}": value for name, value in annotations.items()})
    await world.becomes(lambda: world.reason(service), reason)
    await world.settled()


async def test_the_life_of_a_proxy_is_a_line_a_change(cluster: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tsoperator")
    service, about = egress(), "Service default/db"
    async with running_operator(cluster):
        await cluster.apply(service)
        proxy = await cluster.joined(service)
        await cluster.settled()
        made, ready = told(caplog, about)
        assert made == f"made StatefulSet tailscale/{proxy.name} (hostname default-db)"
        assert ready == f"ready as default-db.{DOMAIN} ({', '.join(json.loads(proxy.state['device_ips']))})"
        await annotated(cluster, service, "ProxyInvalid", tags="db")
        [refused] = told(caplog, about)
        assert '"db" is not a valid tag: write one such as tag:k8s' in refused
        await annotated(cluster, service, "ProxyCreated", tags=None, hostname="orders")
        changed, ended, renamed = told(caplog, about)
        assert changed.endswith("changed its hostname from default-db to orders")
        assert (ended, renamed.split()[:3]) == ("no longer INVALIDSERVICE", ["ready", "as", f"orders.{DOMAIN}"])
        await cluster.delete(service)
        await cluster.eventually(lambda: cluster.gone(service))
    assert told(caplog, about) == ["removed what was made for it"]


async def test_an_operator_that_finds_all_as_it_should_be_tells_nothing_of_objects(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_operator(cluster):
        await cluster.apply(egress(), connector())
        await cluster.joined(connector())
        await cluster.settled()
    caplog.clear()
    caplog.set_level(logging.INFO, "tsoperator")
    async with running_operator(cluster):
        await cluster.settled()
        await cluster.annotate(egress(), {"example.org/theirs": "1"})
        await cluster.settled()
    assert not [message for message in caplog.messages if message.startswith(("Service", "Connector"))]


async def test_no_line_has_a_key_or_a_token(cluster: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running_operator(cluster):
        await cluster.apply(egress(), connector())
        await cluster.joined(egress())
        await cluster.joined(connector())
        await annotated(cluster, egress(), "ProxyCreated", hostname="orders")
        await cluster.delete(egress())
        await cluster.eventually(lambda: cluster.gone(egress()))
    ours = [
        message for record, message in zip(caplog.records, caplog.messages, strict=True) if "tsoperator" in record.name
    ]
    assert {"minting an auth key", "Connector router: plan: hold"} <= {
        found for line in ours for found in SAID.findall(line)
    }
    assert not [message for message in ours if KEYS.search(message)]
