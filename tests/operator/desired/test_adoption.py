"""What the Go operator 1.102.5 made is taken over as it is: no Pod restarts, and no device changes."""

import json
from pathlib import Path

import pytest
from tsoperator.api.names import ANNOTATION_DIGEST
from tsoperator.api.objects import Object, annotations, key_of
from tsoperator.api.v1alpha1.connector import Connector
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.desired.devices import TailnetView
from tsoperator.desired.plan import Plan, digest_of, write_for
from tsoperator.desired.proxy import Children, Proxy
from tsoperator.reconcilers.connector import desired as connectors
from tsoperator.reconcilers.dnsconfig import desired as dnsconfigs
from tsoperator.reconcilers.ingress import desired as ingresses
from tsoperator.reconcilers.service import desired as services

from tests.support.objects import (
    backend_service,
    children_of,
    egress_service,
    live_connector,
    live_dnsconfig,
    live_ingress,
    patches_of,
    settings,
    slim_secret,
)

SETTINGS = settings(proxy_image="tailscale/tailscale:stable", firewall_mode="auto")
TAILNET = TailnetView(login_url="https://headscale.example.org")
RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> dict[str, Object]:
    """The objects that the Go operator made, by what they are."""
    objects: dict[str, Object] = json.loads((RECORDED / f"{name}.json").read_text())
    return objects


def children(made: dict[str, Object]) -> Children:
    found = made["secret"]
    secret = slim_secret(found["metadata"]["name"], found["data"], found["metadata"]["labels"])
    return Children([made["service"]], [made["statefulset"]], [secret])


def uid_of(made: dict[str, Object]) -> str:
    uid: str = made["statefulset"]["spec"]["selector"]["matchLabels"]["app"]
    return uid


def moved(user_object: Object, name: str, uid: str) -> Object:
    """The user's object under the name that it had when the recording was made."""
    return {**user_object, "metadata": {**user_object["metadata"], "namespace": "side", "name": name, "uid": uid}}


def service_plan(service: Object, found: Children) -> Plan:
    observed = services.Observed(found, tailnet=TAILNET)
    wanted = services.wanted(service, observed, SETTINGS)
    assert isinstance(wanted, Proxy)
    return services.plan(service, wanted, observed, SETTINGS)


def egress_plan(made: dict[str, Object], found: Children | None = None) -> Plan:
    return service_plan(moved(egress_service(), "egress-fqdn", uid_of(made)), found or children(made))


def exposed_service(made: dict[str, Object]) -> Object:
    """The LoadBalancer Service that the recording was made of, and its status."""
    spec = {"type": "LoadBalancer", "loadBalancerClass": "tailscale", "clusterIP": "192.0.2.105"}
    given = {"tailscale.com/hostname": "my-lb", "tailscale.com/tags": "tag:k8s"}
    return moved({**egress_service(given, spec=spec), "status": made["status"]}, "lb", uid_of(made))


def exposed_plan(made: dict[str, Object], found: Children | None = None) -> Plan:
    return service_plan(exposed_service(made), found or children(made))


def ingress_plan(made: dict[str, Object], found: Children | None = None) -> Plan:
    spec = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    parent = moved(live_ingress(host="nginx", spec=spec), "nginx", uid_of(made))
    backends = {"web": backend_service(cluster_ip="192.0.2.105")}
    observed = ingresses.Observed(found or children(made), backends, tailnet=TAILNET)
    wanted = ingresses.wanted(parent, observed, SETTINGS)
    assert isinstance(wanted, Proxy)
    return ingresses.plan(parent, wanted, observed, SETTINGS)


def nameserver_plan(made: dict[str, Object]) -> Plan:
    image = {"repo": "tailscale/k8s-nameserver", "tag": "stable"}
    obj = live_dnsconfig(nameserver={"image": image}, uid="dnsconfig-uid")
    observed = dnsconfigs.Observed([obj], made["service"])
    return dnsconfigs.plan(obj, DNSConfig.parse(obj), observed, SETTINGS)


def connector_plan(made: dict[str, Object], found: Children | None = None, proxy_class: Object | None = None) -> Plan:
    """Of a recording without what the ProxyClass of that Connector had added, unless that is given."""
    routes = ["10.40.0.0/14", "192.168.0.0/24"]
    spec = {"hostname": "my-router", "subnetRouter": {"advertiseRoutes": routes}, "exitNode": True}
    obj = live_connector(spec | ({"proxyClass": "prod"} if proxy_class else {}), uid=uid_of(made))
    parsed = Connector.parse(obj)
    observed = connectors.Observed(found or children(made), proxy_class, TAILNET)
    wanted = connectors.wanted(obj, parsed, observed, SETTINGS)
    assert isinstance(wanted, Proxy)
    return connectors.plan(obj, wanted, parsed, observed, SETTINGS)


PLANS = {
    "egress": egress_plan,
    "exposed": exposed_plan,
    "nameserver": nameserver_plan,
    "connector": connector_plan,
}
CONFIGURED = {"egress": egress_plan, "exposed": exposed_plan, "ingress": ingress_plan, "connector": connector_plan}


@pytest.mark.parametrize("name", PLANS)
def test_what_is_there_only_gets_the_digest(name: str) -> None:
    made = recorded(name)
    live = {(obj["kind"], key_of(obj)): obj for obj in made.values() if "kind" in obj}
    adopted = [obj for obj in children_of(PLANS[name](made)) if (obj["kind"], key_of(obj)) in live]
    assert len(adopted) == len([kind for kind, _ in live if kind != "Secret"])
    for desired in adopted:
        found = live[desired["kind"], key_of(desired)]
        given = {**annotations(found), ANNOTATION_DIGEST: digest_of(desired)}
        assert write_for(desired, found) == {**found, "metadata": {**found["metadata"], "annotations": given}}


def test_an_ingress_proxys_pods_do_not_restart() -> None:
    made = recorded("ingress")
    (statefulset,) = [obj for obj in children_of(ingress_plan(made)) if obj["kind"] == "StatefulSet"]
    written = write_for(statefulset, made["statefulset"])
    assert written is not None
    assert written["spec"] == made["statefulset"]["spec"]


def test_what_a_load_balancer_shows_is_not_written() -> None:
    made = recorded("exposed")
    status = exposed_plan(made).status
    assert status is not None
    assert status == made["status"]


@pytest.mark.parametrize("name", CONFIGURED)
def test_the_config_is_not_written(name: str) -> None:
    plan = CONFIGURED[name](recorded(name))
    assert not [patch for patch in patches_of(plan) if patch.resource.kind == "Secret"]
    assert not [obj for obj in children_of(plan) if obj["kind"] == "Secret"]


def test_the_nameserver_gets_the_rights_that_it_did_not_have() -> None:
    assert [obj["kind"] for obj in children_of(nameserver_plan(recorded("nameserver")))] == [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "Deployment",
        "Service",
    ]


def test_a_script_of_a_newer_go_operator_does_not_restart_pods_either() -> None:
    made = recorded("egress")
    script = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"
    made["statefulset"]["spec"]["template"]["spec"]["initContainers"][0]["args"] = [script]
    (statefulset,) = [obj for obj in children_of(egress_plan(made)) if obj["kind"] == "StatefulSet"]
    written = write_for(statefulset, made["statefulset"])
    assert written is not None
    assert written["spec"] == made["statefulset"]["spec"]


def test_a_repeated_environment_name_does_not_restart_pods_either() -> None:
    made = recorded("egress")
    made["statefulset"]["spec"]["template"]["spec"]["containers"][0]["env"].insert(
        0, {"name": "TS_USERSPACE", "value": "true"}
    )
    (statefulset,) = [obj for obj in children_of(egress_plan(made)) if obj["kind"] == "StatefulSet"]
    written = write_for(statefulset, made["statefulset"])
    assert written is not None
    assert written["spec"] == made["statefulset"]["spec"]


def test_a_connectors_status_is_as_the_go_operators() -> None:
    status = connector_plan(recorded("connector")).status
    assert status is not None
    device = {"hostname": "my-router.tail1234.ts.net", "tailnetIPs": ["100.64.0.14", "fd7a:115c:a1e0::e"]}
    ready = {"type": "ConnectorReady", "status": "True", "reason": "ConnectorCreated", "message": "ConnectorCreated"}
    assert status == {
        "conditions": [{**ready, "observedGeneration": 1, "lastTransitionTime": ""}],
        "devices": [device],
        "isAppConnector": False,
        "isExitNode": True,
        "subnetRoutes": "10.40.0.0/14,192.168.0.0/24",
        **device,
    }
