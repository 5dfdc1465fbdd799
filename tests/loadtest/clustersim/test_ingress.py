"""Tests of the simulated proxies of a ProxyGroup of type ingress, which are hosts of Tailscale Services."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from clustersim import kubelet
from clustersim.containerboot import Proxy
from clustersim.ingress import hosted
from clustersim.kubelet import Kubelet
from clustersim.objects import CONFIGMAP, POD, SECRET, Object
from clustersim.store import Store
from clustersim.tailnet import Tailnet, Tailnets
from clustersim.tailnetservices import Host, TailscaleService

from tests.loadtest.clustersim.running import (
    CONFIG,
    DOMAIN,
    new_key,
    prepare_certificate,
    proxy_pod,
    state,
    touch,
    until,
)
from tests.support.cluster import running

HANDLERS = {"Handlers": {"/": {"Proxy": "http://10.0.0.1:8080/"}}}
REDIRECT = {"Handlers": {"/": {"Redirect": "301:https://${HOST}${REQUEST_URI}"}}}
WEB = {
    "TCP": {"443": {"HTTPS": True}, "80": {"HTTP": True}},
    "Web": {f"{DOMAIN}:443": HANDLERS, f"{DOMAIN}:80": REDIRECT},
}
ENDS = ("http://10.0.0.1:8080/", "301:https://${HOST}${REQUEST_URI}")
SERVE = json.dumps({"Services": {"svc:web": WEB}})
API = {"IPv4Mapping": {"TailscaleServiceIP": "100.80.0.2", "ClusterIP": "10.0.0.9"}}
BOTH = {**API, "IPv6Mapping": {"TailscaleServiceIP": "fd7a:115c:a1e0::5000:2", "ClusterIP": "2001:db8::9"}}
RULES = json.dumps({"svc:api": API})
PORTS = frozenset({"tcp:443", "tcp:80"})
ADVERTISED = ["svc:web", "svc:api"]


def replica(name: str = "ing-0", **variables: str) -> Object:
    """Return the Pod *name* of a proxy that can host Tailscale Services, with the environment *variables*."""
    values = {
        "TS_INGRESS_PROXIES_CONFIG_PATH": "/etc/proxies/ingress-config.json",
        "TS_SERVE_CONFIG": "/etc/proxies/serve-config.json",
        "TS_EXPERIMENTAL_CERT_SHARE": "true",
    }
    pod = proxy_pod(name, **{**values, **variables})
    pod["spec"]["serviceAccountName"] = "ing"
    pod["spec"]["containers"][0]["volumeMounts"] += [{"name": "proxies", "mountPath": "/etc/proxies"}]
    pod["spec"]["volumes"] += [{"name": "proxies", "configMap": {"name": "ing-ingress-config"}}]
    return pod


def put_files(store: Store, **files: str | None) -> None:
    """Change *files* in the group's ConfigMap. A ``_`` in an argument's name stands for ``-``."""
    data = {
        f"{name.replace('_', '-')}.json": None if text is None else b64encode(text.encode()).decode()
        for name, text in files.items()
    }
    store.merge(CONFIGMAP, "tailscale", "ing-ingress-config", {"binaryData": data})


def put_config(store: Store, name: str = "ing-0", **config: Any) -> None:
    """Change the configuration in a replica's Secret."""
    text = json.dumps({**CONFIG, "Hostname": "ing-0", **config})
    store.merge(SECRET, "tailscale", name, {"stringData": {"cap-106.hujson": text}})


@dataclass
class Ground:
    """A *proxy* of a group, the *store* of its cluster, and its *tailnet*.

    The proxy works only while a test calls its methods.
    """

    store: Store
    tailnet: Tailnet
    proxy: Proxy

    @property
    def node_id(self) -> str:
        assert self.proxy.device is not None
        return self.proxy.device.node_id

    @property
    def hosts(self) -> dict[str, Host]:
        """The latest report of this device about each Tailscale Service that it hosts, by the name of the Service."""
        reports = {name: self.tailnet.services.hosts(name) for name in ADVERTISED}
        return {name: hosts[self.node_id] for name, hosts in reports.items() if self.node_id in hosts}

    def start(self) -> None:
        """Start the proxy again, as a new container."""
        self.proxy = started(self.store, self.tailnet, replica())

    def lose_device(self) -> None:
        """Delete the device from the tailnet, after another auth key has been mounted.

        At the proxy's next step, its container starts again and joins with this key.
        """
        put_config(self.store, AuthKey=new_key(self.tailnet), AdvertiseServices=ADVERTISED)
        self.proxy.sync()
        self.tailnet.delete_device(self.tailnet.devices[self.node_id])

    def settle(self) -> None:
        """Mount the present files, and let the proxy work until nothing changes any more."""
        self.proxy.sync()
        self.proxy.step()
        while self.proxy.is_outdated():
            self.proxy.step()

    def preference(self) -> Any:
        """Return the Tailscale Services that the device advertises, according to the login profile in its state."""
        found = state(self.store, "ing-0")
        return json.loads(found[found["_current-profile"]])["AdvertiseServices"]

    def report(self) -> Any:
        return json.loads(state(self.store, "ing-0").get("ingress-config.json", "null"))


def started(store: Store, tailnet: Tailnet, pod: Object, capability_version: int = 142) -> Proxy:
    """Return a proxy that runs in *pod* and reads configurations up to the *capability_version*."""
    metadata, status = {**pod["metadata"], "uid": "P"}, {"podIPs": [{"ip": "10.244.0.2"}]}
    given, container = {**pod, "metadata": metadata, "status": status}, pod["spec"]["containers"][0]
    return Proxy(store, Tailnets(tailnet), given, container, capability_version)


def ground(name: str = "ing-0", capability_version: int = 142, **variables: str) -> Ground:
    store, tailnet = Store(), Tailnet()
    store.create(CONFIGMAP, {"metadata": {"name": "ing-ingress-config", "namespace": "tailscale"}})
    store.create(SECRET, {"metadata": {"name": name, "namespace": "tailscale"}})
    put_config(store, name, AuthKey=new_key(tailnet), AdvertiseServices=ADVERTISED)
    tailnet.services.put(TailscaleService("svc:web", ("tcp:443", "tcp:80")))
    tailnet.services.put(TailscaleService("svc:api", ("do-not-validate",)))
    return Ground(store, tailnet, started(store, tailnet, replica(name, **variables), capability_version))


@pytest.mark.parametrize(
    ("advertised", "serve_config", "rules", "hosts"),
    [
        ([], {}, {}, {}),
        (["svc:web"], {}, {}, {"svc:web": Host()}),
        ([], {"Services": {"svc:web": WEB}}, {}, {"svc:web": Host(False, PORTS, ENDS)}),
        (["svc:web"], {"Services": {"svc:web": WEB}}, {}, {"svc:web": Host(True, PORTS, ENDS)}),
        (["svc:web"], {"Services": {"svc:web": {"TCP": None, "Web": None}}}, {}, {"svc:web": Host(True, frozenset())}),
        (["svc:web"], {"Services": None, "TCP": {"443": {"HTTPS": True}}}, {}, {"svc:web": Host()}),
        ([], {}, {"svc:api": API}, {}),
        (["svc:api"], {}, {"svc:api": API}, {"svc:api": Host(backends=("10.0.0.9",))}),
        (["svc:api"], {}, {"svc:api": BOTH}, {"svc:api": Host(backends=("10.0.0.9", "2001:db8::9"))}),
    ],
)
def test_a_host_reports_the_tailscale_services_that_it_advertises_and_the_ports_that_it_serves(
    advertised: list[str], serve_config: Object, rules: Object, hosts: dict[str, Host]
) -> None:
    assert hosted(advertised, serve_config, rules) == hosts


def test_a_host_of_tailscale_services_advertises_at_each_start_before_it_has_its_configuration() -> None:
    it = ground()
    put_files(it.store, serve_config=SERVE, ingress_config=RULES)
    services = it.tailnet.services
    for start in (it.start, it.start, it.lose_device):
        start()
        it.proxy.step()
        assert it.hosts == dict.fromkeys(ADVERTISED, Host())
        assert [services.primary(name) for name in ADVERTISED] == ["", it.node_id]
        assert (services.backends("svc:api"), it.report()) == ((), None)
        it.settle()
        assert [services.backends(name) for name in ADVERTISED] == [ENDS, ("10.0.0.9",)]
        assert it.report() == {"configs": {"svc:api": API}, "podIPv4": "10.244.0.2"}
        assert state(it.store, "ing-0")["https_endpoint"] == "ing-0.tail1234.ts.net"


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        (None, PORTS),
        ("", PORTS),
        ("{}", None),
        (json.dumps({"Services": {"svc:web": {"TCP": {"80": {"HTTP": True}}}}}), frozenset({"tcp:80"})),
    ],
)
def test_a_host_with_a_missing_or_empty_serve_config_file_keeps_its_present_serve_config(
    text: str | None, ports: frozenset[str] | None
) -> None:
    it = ground()
    put_files(it.store, serve_config=SERVE)
    it.settle()
    put_files(it.store, serve_config=text)
    it.settle()
    assert it.hosts["svc:web"].ports == ports
    it.lose_device()
    it.settle()
    assert it.hosts["svc:web"].ports == (ports if text else None)


@pytest.mark.parametrize(
    ("before", "after", "reports"),
    [
        (None, None, (None, None)),
        (None, "{}", (None, {"podIPv4": "10.244.0.2"})),
        (RULES, RULES, ({"configs": {"svc:api": API}, "podIPv4": "10.244.0.2"},) * 2),
        (RULES, None, ({"configs": {"svc:api": API}, "podIPv4": "10.244.0.2"}, {"podIPv4": "10.244.0.2"})),
        (RULES, "", ({"configs": {"svc:api": API}, "podIPv4": "10.244.0.2"}, {"podIPv4": "10.244.0.2"})),
    ],
)
def test_a_host_of_tailscale_services_reports_its_rules(
    before: str | None, after: str | None, reports: tuple[Any, Any]
) -> None:
    it = ground()
    found = []
    for text in (before, after):
        put_files(it.store, ingress_config=text)
        it.settle()
        found.append(it.report())
    assert tuple(found) == reports


@pytest.mark.parametrize("file", ["serve_config", "ingress_config"])
@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_host_of_tailscale_services_crashes_if_one_of_its_files_is_unreadable(file: str, text: str) -> None:
    it = ground()
    put_files(it.store, **{file: text})
    it.settle()
    assert it.proxy.step().waits == "CrashLoopBackOff"


def test_a_host_advertises_the_tailscale_services_in_its_present_configuration() -> None:
    it = ground()
    it.settle()
    assert (it.preference(), [*it.hosts]) == (ADVERTISED, ADVERTISED)
    for names in (["svc:api"], [], None):
        put_config(it.store, AdvertiseServices=names)
        it.settle()
        assert (it.preference(), [*it.hosts]) == (names or None, names or [])


@pytest.mark.parametrize(("end", "connected"), [(Proxy.withdraw, True), (Proxy.end, False)])
def test_a_proxy_that_ends_withdraws_its_tailscale_services(end: Callable[[Proxy], None], connected: bool) -> None:
    it = ground()
    put_files(it.store, serve_config=SERVE)
    it.settle()
    end(it.proxy)
    assert (it.preference(), it.hosts) == (None, {"svc:web": Host(False, PORTS, ENDS)})
    assert it.tailnet.devices[it.node_id].connected is connected


CERTIFICATE = {"tls.crt", "tls.key"}


@pytest.mark.parametrize(
    ("name", "version", "more", "https", "approvers", "keys", "shares"),
    [
        ("ing-0", 142, {}, True, None, CERTIFICATE, False),
        ("ing-0", 143, {}, True, None, CERTIFICATE | {"acme-account-fingerprint"}, True),
        ("ing-0", 143, {"TS_EXPERIMENTAL_CERT_SHARE": "false"}, True, None, set(), False),
        ("ing-1", 143, {}, True, None, set(), False),
        ("ing-0", 143, {}, False, None, set(), False),
        ("ing-0", 143, {}, True, {"svc:api": ["tag:k8s"]}, set(), False),
    ],
)
def test_replica_0_writes_certificates_for_services_that_it_is_allowed_to_host(
    name: str, version: int, more: dict[str, str], https: bool, approvers: Any, keys: set[str], shares: bool
) -> None:
    it = ground(name, version, **{"TS_ACME_ACCOUNT_SECRET_NAME": "acme", "TS_ACME_ACCOUNT_FIELD": "a.pem", **more})
    it.tailnet.https, it.tailnet.services.approvers = https, approvers
    put_config(it.store, name, AuthKey=new_key(it.tailnet))
    put_files(it.store, serve_config=SERVE)
    prepare_certificate(it.store)
    it.settle()
    assert state(it.store, DOMAIN).keys() == keys
    assert state(it.store, "acme").keys() == ({"a.pem"} if shares else set())
    assert state(it.store, name)["https_endpoint"] == ("ing-0.tail1234.ts.net" if https else "no-https")
    assert state(it.store, name)["tailscale_capver"] == str(version)


@pytest.fixture
async def cluster() -> AsyncIterator[tuple[Ground, Kubelet]]:
    """Yield a group whose replica 0 runs in a cluster, and the kubelet of the cluster.

    The replica gets the traffic of the group's Tailscale Services.
    """
    it = ground()
    put_files(it.store, serve_config=SERVE, ingress_config=RULES)
    nodes = Kubelet(it.store, Tailnets(it.tailnet))
    async with running(nodes.run()):
        it.store.create(POD, replica())
        await until(it.store, lambda: it.report() is not None)
        yield it, nodes


def serves(it: Ground) -> bool:
    return bool(it.tailnet.services.backends("svc:web"))


def is_connected(it: Ground) -> bool:
    (device,) = it.tailnet.devices.values()
    return device.connected


@pytest.mark.virtual_time
async def test_a_host_withdraws_its_tailscale_services_before_its_pod_is_gone(cluster: tuple[Ground, Kubelet]) -> None:
    it, _ = cluster
    assert (serves(it), is_connected(it)) == (True, True)
    it.store.delete(POD, "tailscale", "ing-0")
    await asyncio.sleep(kubelet.SECOND)
    assert not serves(it)
    touch(it.store, "ing-0")
    await asyncio.sleep(15 * kubelet.SECOND)
    assert (serves(it), is_connected(it), it.preference()) == (False, True, None)
    await asyncio.sleep(10 * kubelet.SECOND)
    assert (it.store.find(POD, "tailscale", "ing-0"), is_connected(it)) == (None, False)
    it.store.create(POD, replica())
    await asyncio.sleep(1)
    assert (serves(it), is_connected(it)) == (True, True)


@pytest.mark.virtual_time
async def test_a_host_on_a_dead_node_gets_traffic_until_the_control_server_marks_it_as_offline(
    cluster: tuple[Ground, Kubelet],
) -> None:
    it, nodes = cluster
    nodes.kill_node(it.store.get(POD, "tailscale", "ing-0")["spec"]["nodeName"])
    it.store.delete(POD, "tailscale", "ing-0", grace=0)
    await asyncio.sleep(kubelet.OFFLINE_AFTER / 2)
    assert (serves(it), is_connected(it)) == (True, True)
    await asyncio.sleep(kubelet.OFFLINE_AFTER)
    assert (serves(it), is_connected(it)) == (False, False)
