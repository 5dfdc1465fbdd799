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
    assert values["TS_KUBE_SECRET"] == "ts-db-0"
    assert values["TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR"] == "/etc/tsconfig/ts-db-0"
    assert values["LATE"] == "$(EARLY)/ts-db-0/1234-UID"


def test_a_repeated_name_takes_its_last_value(pod: Object) -> None:
    container(pod)["env"].append({"name": "EARLY", "value": "y"})
    assert environment(pod, container(pod))["EARLY"] == "y"


def test_a_pod_without_the_proxys_variables_is_no_proxy() -> None:
    assert proxy_container({"spec": {"containers": [{"name": "a", "env": [{"name": "TS_KUBE_SECRET"}]}]}}) is None


def test_a_mounted_folder_is_its_secret(pod: Object) -> None:
    assert mount_of(pod, container(pod), "/etc/tsconfig/ts-db-0") == Mount("ts-db-0")


def test_a_mounted_file_is_a_key_of_its_secret(pod: Object) -> None:
    pod["spec"]["volumes"][1]["secret"]["items"] = [{"key": "serve", "path": "serve-config"}]
    assert mount_of(pod, container(pod), "/etc/tailscaled/ts-db-0/serve-config") == Mount("ts-db-0", "serve")


def test_nothing_is_mounted_elsewhere(pod: Object) -> None:
    assert mount_of(pod, container(pod), "/etc/other") is None
