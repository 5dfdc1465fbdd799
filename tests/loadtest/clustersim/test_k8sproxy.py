"""Tests of the simulated k8s-proxy: its configuration, its login, and the Tailscale Service that it serves."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from clustersim import kubelet
from clustersim.k8sproxy import APIConfig, parse_api_config
from clustersim.objects import POD, ROLE, ROLEBINDING, SECRET, Object
from clustersim.proxyconfig import ConfigError
from clustersim.store import Store
from clustersim.tailnet import Tailnet
from clustersim.tailnetservices import TailscaleService

from tests.loadtest.clustersim.running import new_key, state, until
from tests.support.cluster import running

NAME, CONFIG, SERVICE, DOMAIN = "kapi-0", "kapi-0-config", "svc:kapi", "kapi.tail1234.ts.net"
PLAIN = {"Version": "v1alpha1", "State": f"kube:{NAME}", "Hostname": NAME}
SERVING = {"Enabled": True, "Mode": "auth", "ServiceName": SERVICE, "IssueCerts": True}
ROLE_OF_PODS: Object = {
    "metadata": {"name": "kapi", "namespace": "tailscale"},
    "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [CONFIG], "verbs": ["get"]}],
}


def text(**config: Any) -> str:
    return json.dumps({**PLAIN, **config})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"APIServerProxy": SERVING}, {"service": SERVICE, "issues": True}),
        ({"APIServerProxy": {**SERVING, "Enabled": False}}, {"service": "", "issues": True}),
        ({"APIServerProxy": {"Enabled": True, "Mode": "noauth"}}, {}),
        ({"AuthKey": "key", "ServerURL": "https://a"}, {"auth_key": "key", "server_url": "https://a"}),
        ({"AdvertiseServices": [SERVICE], "SomethingNew": 1}, {"advertised": (SERVICE,)}),
    ],
)
def test_the_simulated_k8s_proxy_reads_its_configuration_and_ignores_unknown_fields(
    given: Any, expected: dict[str, Any]
) -> None:
    assert parse_api_config(text(**given)) == APIConfig(**{"state": NAME, "hostname": NAME, **expected})


@pytest.mark.parametrize(
    "wrong", ["", "[]", text(Version="v1"), text(State="mem:"), text(APIServerProxy={"Mode": "other"})]
)
def test_the_simulated_k8s_proxy_refuses_an_invalid_configuration(wrong: str) -> None:
    with pytest.raises(ConfigError):
        parse_api_config(wrong)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def tailnet(store: Store) -> AsyncIterator[Tailnet]:
    """Yield a tailnet with the Tailscale Service `SERVICE`. The Pods in *store* can join the tailnet."""
    tailnet = Tailnet()
    tailnet.services.put(TailscaleService(SERVICE, ("tcp:443",), ("tag:k8s",)))
    async with running(kubelet.run(store, tailnet)):
        yield tailnet


def start(store: Store, *, permitted: bool = True, **config: Any) -> None:
    """Run a Pod with the settings *config*, which its ServiceAccount is allowed to read only if *permitted* is true."""
    for name, data in ((CONFIG, {"config.hujson": text(**config)}), (NAME, {}), (DOMAIN, {})):
        store.create(SECRET, {"metadata": {"name": name, "namespace": "tailscale"}, "stringData": data})
    of_domain = {**ROLE_OF_PODS["rules"][0], "resourceNames": [DOMAIN], "verbs": ["patch"]}
    rules = [*(ROLE_OF_PODS["rules"] if permitted else ()), of_domain]
    store.create(ROLE, {**ROLE_OF_PODS, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "kapi", "namespace": "tailscale"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kapi"}
    store.create(ROLEBINDING, {"metadata": ROLE_OF_PODS["metadata"], "subjects": [subject], "roleRef": role})
    env = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "TS_K8S_PROXY_CONFIG", "value": "kube:tailscale/$(POD_NAME)-config"},
    ]
    container = {"name": "tailscale", "image": "example.org/k8s-proxy:1", "env": env}
    spec = {"serviceAccountName": "kapi", "containers": [container]}
    store.create(POD, {"metadata": {"name": NAME, "namespace": "tailscale"}, "spec": spec})


def configure(store: Store, **config: Any) -> None:
    store.merge(SECRET, "tailscale", CONFIG, {"stringData": {"config.hujson": text(**config)}})


def container(store: Store) -> Any:
    statuses = store.get(POD, "tailscale", NAME).get("status", {}).get("containerStatuses")
    return statuses[0] if statuses else {}


def advertised(store: Store) -> Any:
    found = state(store, NAME)
    return json.loads(found.get(found.get("_current-profile", ""), "{}")).get("AdvertiseServices")


async def test_a_k8s_proxy_joins_the_tailnet_gets_its_certificate_and_advertises_the_service_in_its_config(
    store: Store, tailnet: Tailnet
) -> None:
    start(store, AuthKey=new_key(tailnet), APIServerProxy=SERVING)
    await until(store, lambda: "tls.crt" in state(store, DOMAIN))
    assert (tailnet.services.primary(SERVICE), advertised(store)) == ("", None)
    configure(store, APIServerProxy=SERVING, AdvertiseServices=[SERVICE])
    await until(store, lambda: advertised(store) == [SERVICE])
    assert tailnet.services.primary(SERVICE) == state(store, NAME)["device_id"]
    store.delete(POD, "tailscale", NAME)
    await until(store, lambda: advertised(store) is None)
    assert (tailnet.services.primary(SERVICE), store.find(POD, "tailscale", NAME)) == ("", None)


async def test_a_k8s_proxy_whose_config_turns_certificates_off_gets_no_certificate(
    store: Store, tailnet: Tailnet
) -> None:
    start(store, AuthKey=new_key(tailnet), APIServerProxy={**SERVING, "IssueCerts": False})
    await until(store, lambda: tailnet.services.hosts(SERVICE))
    assert "tls.crt" not in state(store, DOMAIN)


@pytest.mark.parametrize(("key", "asked"), [("used", "used"), ("", "no-authkey")])
async def test_a_k8s_proxy_with_a_refused_auth_key_asks_for_another_key(
    store: Store, tailnet: Tailnet, key: str, asked: str
) -> None:
    start(store, AuthKey=key)
    await until(store, lambda: state(store, NAME).get("reissue_authkey") == asked)
    configure(store, AuthKey=new_key(tailnet))
    await until(store, lambda: "device_fqdn" in state(store, NAME))
    assert ("reissue_authkey" in state(store, NAME), container(store)["restartCount"]) == (False, 1)


async def test_a_k8s_proxy_without_the_right_to_read_its_config_does_not_start(store: Store, tailnet: Tailnet) -> None:
    start(store, permitted=False, AuthKey=new_key(tailnet))
    await until(store, lambda: container(store).get("state", {}).get("waiting"))
    assert "forbidden" in container(store)["state"]["waiting"]["message"]
    store.merge(ROLE, "tailscale", "kapi", {"rules": ROLE_OF_PODS["rules"]})
    configure(store, AuthKey=new_key(tailnet))
    await until(store, lambda: "device_id" in state(store, NAME))


async def test_a_k8s_proxy_never_becomes_ready_if_the_control_server_gives_no_answer(
    store: Store, tailnet: Tailnet
) -> None:
    tailnet.silent.add(NAME)
    start(store, AuthKey=new_key(tailnet))
    await until(store, lambda: container(store).get("state", {}).get("waiting"))
    assert "context deadline exceeded" in container(store)["state"]["waiting"]["message"]
    assert (tailnet.devices, container(store)["ready"]) == ({}, False)


async def test_a_running_k8s_proxy_ignores_an_invalid_config_and_applies_a_new_hostname(
    store: Store, tailnet: Tailnet
) -> None:
    start(store, AuthKey=new_key(tailnet))
    await until(store, lambda: "device_fqdn" in state(store, NAME))
    configure(store, Version="v2", Hostname="other")
    configure(store, Hostname="gate")
    await until(store, lambda: state(store, NAME)["device_fqdn"] == "gate.tail1234.ts.net.")
    assert container(store)["restartCount"] == 0
