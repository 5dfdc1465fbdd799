import base64
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from clustersim import objects as kinds
from clustersim.sim import ClusterSim
from pydantic import SecretStr
from tsoperator.api.objects import Key, Object
from tsoperator.authkeys import AuthKeys
from tsoperator.kube.client import KubeClient
from tsoperator.kube.errors import Unreachable
from tsoperator.tsclient.client import TailnetClient
from tsoperator.tsclient.errors import ControlError
from tsoperator.tsclient.oauth import Credentials

SECRET = Key("tailscale", "ts-db-0")
TAGS = ("tag:k8s", "tag:db")


@pytest.fixture
async def auth_keys(sim: ClusterSim, client: KubeClient) -> AsyncIterator[AuthKeys]:
    credentials = Credentials(sim.control.client_id, SecretStr(sim.control.client_secret))
    async with aiohttp.ClientSession() as session:
        yield AuthKeys(client, TailnetClient(session, sim.control_url, lambda: credentials))


def put_secret(sim: ClusterSim, **values: str | Object) -> None:
    """Create the proxy's Secret; an object is a config file."""
    names = {"config": "cap-107.hujson", "old_config": "cap-95.hujson"}
    texts = {
        names.get(name, name): value if isinstance(value, str) else json.dumps(value) for name, value in values.items()
    }
    data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    sim.store.create(kinds.SECRET, {"metadata": {"namespace": SECRET.namespace, "name": SECRET.name}, "data": data})


async def test_a_new_proxy_gets_a_new_key(sim: ClusterSim, auth_keys: AuthKeys) -> None:
    obtained = await auth_keys.obtain(SECRET, TAGS)
    [minted] = sim.control.keys.values()
    assert obtained == minted.key
    assert minted.tags == TAGS
    assert (minted.reusable, minted.ephemeral, minted.preauthorized) == (False, False, True)


async def test_a_key_in_the_live_secret_is_the_one_to_use(sim: ClusterSim, auth_keys: AuthKeys) -> None:
    put_secret(sim, config={"AuthKey": "tskey-auth-unused"})
    assert await auth_keys.obtain(SECRET, TAGS) == "tskey-auth-unused"
    assert not sim.control.keys


async def test_the_key_of_the_newest_config_counts(sim: ClusterSim, auth_keys: AuthKeys) -> None:
    put_secret(sim, old_config={"AuthKey": "tskey-auth-old"}, config={"AuthKey": "tskey-auth-new"})
    assert await auth_keys.obtain(SECRET, TAGS) == "tskey-auth-new"


async def test_a_proxy_that_has_logged_in_needs_no_key(sim: ClusterSim, auth_keys: AuthKeys) -> None:
    put_secret(sim, config={"Hostname": "db"}, device_id="n000001CNTRL")
    assert await auth_keys.obtain(SECRET, TAGS) == ""
    assert not sim.control.keys


@pytest.mark.parametrize("config", [{"Hostname": "db"}, {"AuthKey": ""}, {"AuthKey": None}, "not JSON"])
async def test_a_secret_without_a_key_gets_one(sim: ClusterSim, auth_keys: AuthKeys, config: Object | str) -> None:
    put_secret(sim, config=config)
    assert await auth_keys.obtain(SECRET, TAGS) == next(iter(sim.control.keys.values())).key


async def test_every_call_reads_the_secret_as_it_is_then(sim: ClusterSim, auth_keys: AuthKeys) -> None:
    first = await auth_keys.obtain(SECRET, TAGS)
    put_secret(sim, config={"AuthKey": first})
    assert await auth_keys.obtain(SECRET, TAGS) == first
    assert sim.requests["tsoperator", "get", "secrets"] == 2
    assert len(sim.control.keys) == 1


async def test_no_key_is_minted_while_the_secret_cannot_be_read(sim: ClusterSim, auth_keys: AuthKeys) -> None:
    sim.faults.leave()
    with pytest.raises(Unreachable):
        await auth_keys.obtain(SECRET, TAGS)
    assert not sim.control.keys


async def test_a_tag_that_is_not_permitted_is_told(sim: ClusterSim, auth_keys: AuthKeys) -> None:
    sim.control.client_tags = {"tag:k8s"}
    with pytest.raises(ControlError, match="tag:db"):
        await auth_keys.obtain(SECRET, TAGS)


async def test_the_log_tells_of_a_new_key_but_not_which(auth_keys: AuthKeys, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tsoperator.authkeys")
    key = await auth_keys.obtain(SECRET, TAGS)
    assert caplog.messages == ["minting an auth key for tailscale/ts-db-0 with tag:k8s, tag:db"]
    assert key not in caplog.text
