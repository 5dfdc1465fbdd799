import pytest
from clustersim.containerboot import Mount, environment, mount_of, proxy_container
from clustersim.objects import Object

from tests.loadtest.clustersim.running import proxy_pod


@pytest.fixture
def pod() -> Object:
    pod = proxy_pod("ts-db-0", LATE="$(EARLY)/$(POD_NAME)/$(POD_UID)", EARLY="x")
    return {**pod, "metadata": {**pod["metadata"], "uid": "1234-UID"}}


def container(pod: Object) -> Object:
    found = proxy_container(pod)
    assert found is not None
    return found


def test_references_expand_to_what_came_before_them(pod: Object) -> None:
    values = environment(pod, container(pod))
    assert values["TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR"] == "/etc/tsconfig/ts-db-0"
    assert values["LATE"] == "$(EARLY)/ts-db-0/1234-UID"
    container(pod)["env"].append({"name": "EARLY", "value": "y"})
    assert environment(pod, container(pod))["EARLY"] == "y"


def test_a_mount_is_a_secret_or_a_key_of_it(pod: Object) -> None:
    pod["spec"]["volumes"][1]["secret"]["items"] = [{"key": "serve", "path": "serve-config"}]
    paths = ("/etc/tsconfig/ts-db-0", "/etc/tailscaled/ts-db-0/serve-config", "/etc/other")
    mounts = [Mount("ts-db-0"), Mount("ts-db-0", "serve"), None]
    assert [mount_of(pod, container(pod), path) for path in paths] == mounts
