"""The log of a whole operator about the lives of objects, without any secret."""

import json
import logging
import re

import pytest

from tests.support.manifests import DOMAIN, backend, connector, egress, ingress, proxy_class
from tests.support.operator import World, running_operator

pytestmark = pytest.mark.full

KEYS = re.compile(r"(ts|hs)key-\w+|AuthKey|Bearer|eyJ\w+")


def told(caplog: pytest.LogCaptureFixture, about: str) -> list[str]:
    """Return the log lines about the object *about*, and clear the log. Assert that no line has a key or a token."""
    ours = [record for record in caplog.records if "tsoperator" in record.name]
    assert not [record for record in ours if KEYS.search(record.getMessage())]
    lines = [record.getMessage() for record in ours if record.levelno >= logging.INFO]
    caplog.clear()
    return [line.removeprefix(f"{about}: ") for line in lines if line.startswith(f"{about}: ")]


async def annotated(world: World, reason: str, **annotations: str | None) -> None:
    """Annotate the Service, and wait until its condition has the *reason* and the operator has settled."""
    await world.annotate(egress(), {f"tailscale.com/{name}": value for name, value in annotations.items()})
    await world.becomes(lambda: world.reason(egress()), reason)
    await world.settled()


@pytest.mark.simulated  # on a slow API server, changes may come one after another, and cause more lines
async def test_the_log_has_one_line_for_each_change_in_the_life_of_a_proxy(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    about = "Service default/db"
    cluster.peer()  # without the target's device, the log may have a line that says so
    async with running_operator(cluster):
        await cluster.apply(egress(), connector())
        await cluster.joined(connector())
        proxy = await cluster.joined(egress())
        assert "minting an auth key" in caplog.text
        made, ready = told(caplog, about)
        assert made == f"made StatefulSet tailscale/{proxy.name} (hostname default-db)"
        joined = f"ready as default-db.{DOMAIN} ({', '.join(json.loads(proxy.state['device_ips']))})"
        assert ready == f"changed Service default/db (spec.type, spec.externalName); {joined}"
        await annotated(cluster, "ProxyInvalid", tags="db")
        [refused] = told(caplog, about)
        assert '"db" is not a valid tag: write one such as tag:k8s' in refused
        await annotated(cluster, "ProxyCreated", tags=None, hostname="orders")
        changed, ended, renamed = told(caplog, about)
        assert changed.endswith("changed its hostname from default-db to orders")
        assert (ended, renamed.split()[:3]) == ("no longer INVALIDSERVICE", ["ready", "as", f"orders.{DOMAIN}"])
        await cluster.delete(egress())
        await cluster.eventually(lambda: cluster.gone(egress()))
    assert told(caplog, about) == ["removed what was made for it"]


async def test_the_log_of_an_operator_that_changes_nothing_does_not_mention_objects(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_operator(cluster):
        await cluster.apply(egress(), connector())
        await cluster.joined(connector())
    caplog.clear()
    caplog.set_level(logging.INFO, "tsoperator")
    async with running_operator(cluster):
        await cluster.settled()
        await cluster.annotate(egress(), {"example.org/theirs": "1"})
        await cluster.settled()
    assert not [message for message in caplog.messages if message.startswith(("Service", "Connector"))]


async def test_a_change_of_a_class_does_not_log_the_missing_backends_of_an_ingress_again(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    half, missing = ingress(proxy_class="prod"), {"name": "missing", "port": {"number": 80}}
    path = {"path": "/other", "pathType": "Prefix", "backend": {"service": missing}}
    half["spec"]["rules"] = [{"http": {"paths": [path]}}]
    caplog.set_level(logging.INFO)
    async with running_operator(cluster):
        await cluster.apply(proxy_class(), backend(), half)
        await cluster.joined(half)
        assert "InvalidIngressBackend" in "".join(told(caplog, "Ingress default/web"))
        await cluster.change(proxy_class(), {"spec": {"statefulSet": {"labels": {"team": "web"}}}})
        await cluster.settled()
    assert told(caplog, "Ingress default/web") == []
