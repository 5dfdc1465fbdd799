"""ProxyGroups on a cluster: the operator runs, and the state of the world is looked at."""

from tsoperator.api.objects import PROXYGROUP, SECRET, Object

from tests.support.operator import World

READY = "ProxyGroupReady"


def group(name: str = "foo", **spec: object) -> Object:
    """Return a ProxyGroup of type egress."""
    metadata = {"name": name}
    content = {"type": "egress", **spec}
    return {"apiVersion": PROXYGROUP.api_version, "kind": PROXYGROUP.kind, "metadata": metadata, "spec": content}


async def test_a_group_of_another_type_says_that_nothing_is_done_for_it(world: World) -> None:
    other = group(type="ingress")
    await world.apply(other)
    await world.becomes(lambda: world.reason(other, READY), "NotSupportedYet")
    assert not await world.writes_when_left_alone()
    await world.delete(other)
    await world.eventually(lambda: world.gone(other))


async def test_a_new_group_waits_for_its_proxies(world: World) -> None:
    await world.apply(group())
    await world.becomes(lambda: world.reason(group(), READY), "ProxyGroupCreating")
    await world.settled()
    for name in ("foo-0", "foo-0-config", "foo-1", "foo-1-config"):
        assert await world.find(SECRET, name)
    assert len(world.control.keys) == 2
    assert not await world.writes_when_left_alone()
