"""The objects that the Go operator 1.102.5 made on a cluster, and our plans for the same objects of users."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tsoperator.api.objects import Object
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.reconcilers.connector import plan as connectors
from tsoperator.reconcilers.connector.ask import parse as parse_connector
from tsoperator.reconcilers.dnsconfig import plan as dnsconfigs
from tsoperator.reconcilers.ingress import plan as ingresses
from tsoperator.reconcilers.ingress.ask import parse as parse_ingress
from tsoperator.reconcilers.service import plan as services
from tsoperator.reconcilers.service.ask import parse
from tsoperator.runtime.plan import Plan

from tests.support.objects import (
    backend_service,
    egress_service,
    live_connector,
    live_dnsconfig,
    live_ingress,
    live_proxy_class,
    settings,
    slim_secret,
)

SETTINGS = settings(proxy_image="tailscale/tailscale:stable", firewall_mode="auto")
TAILNET = TailnetView(login_url="https://headscale.example.org")
RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> dict[str, Object]:
    """Return the objects in the recording called *name*, by role, such as service, secret and statefulset."""
    objects: dict[str, Object] = json.loads((RECORDED / f"{name}.json").read_text())
    if name == "class":
        service = recorded("connector")["service"]
        service["metadata"]["name"] = objects["statefulset"]["metadata"]["name"]
        service["spec"]["selector"] = objects["statefulset"]["spec"]["selector"]["matchLabels"]
        objects["service"] = service
    return objects


def _children(made: dict[str, Object]) -> Children:
    found = made["secret"]
    secret = slim_secret(found["metadata"]["name"], found["data"], found["metadata"]["labels"])
    return Children([made["service"]], [made["statefulset"]], [secret])


def _uid_of(made: dict[str, Object]) -> str:
    uid: str = made["statefulset"]["spec"]["selector"]["matchLabels"]["app"]
    return uid


def _moved(user_object: Object, name: str, uid: str) -> Object:
    """Return *user_object* with the *name* and the *uid* that it had when the recording was made."""
    return {**user_object, "metadata": {**user_object["metadata"], "namespace": "side", "name": name, "uid": uid}}


def _service_plan(service: Object, found: Children) -> Plan:
    ask, observed = parse(service, SETTINGS), services.Observed(found, tailnet=TAILNET)
    wanted = services.wanted(ask, observed, SETTINGS)
    assert isinstance(wanted, Proxy)
    return services.plan(ask, wanted, observed, SETTINGS)


def egress_plan(made: dict[str, Object], found: Children | None = None) -> Plan:
    return _service_plan(_moved(egress_service(), "egress-fqdn", _uid_of(made)), found or _children(made))


def exposed_plan(made: dict[str, Object], found: Children | None = None) -> Plan:
    spec = {"type": "LoadBalancer", "loadBalancerClass": "tailscale", "clusterIP": "192.0.2.105"}
    given = {"tailscale.com/hostname": "my-lb", "tailscale.com/tags": "tag:k8s"}
    service = _moved({**egress_service(given, spec=spec), "status": made["status"]}, "lb", _uid_of(made))
    return _service_plan(service, found or _children(made))


def ingress_plan(made: dict[str, Object], found: Children | None = None) -> Plan:
    spec = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    parent = _moved(live_ingress(host="nginx", spec=spec), "nginx", _uid_of(made))
    backends = {"web": backend_service(cluster_ip="192.0.2.105")}
    observed = ingresses.Observed(found or _children(made), backends, tailnet=TAILNET)
    ask = parse_ingress(parent, SETTINGS)
    wanted = ingresses.wanted(ask, observed, SETTINGS)
    assert isinstance(wanted, Proxy)
    return ingresses.plan(ask, wanted, observed, SETTINGS)


def nameserver_plan(made: dict[str, Object]) -> Plan:
    image = {"repo": "tailscale/k8s-nameserver", "tag": "stable"}
    obj = live_dnsconfig(nameserver={"image": image}, uid="dnsconfig-uid")
    observed = dnsconfigs.Observed([obj], made["service"])
    return dnsconfigs.plan(obj, dnsconfigs.cluster_dns(obj, observed, SETTINGS), observed, SETTINGS, {})


def connector_plan(made: dict[str, Object], found: Children | None = None, proxy_class: Object | None = None) -> Plan:
    """Return the plan for the Connector of the recording *made*, whose children are *found* or the recorded ones.

    The Connector names a ProxyClass only if *proxy_class* is given.
    """
    routes = ["10.40.0.0/14", "192.168.0.0/24"]
    spec = {"hostname": "my-router", "subnetRouter": {"advertiseRoutes": routes}, "exitNode": True}
    obj = live_connector(spec | ({"proxyClass": "prod"} if proxy_class else {}), uid=_uid_of(made))
    observed = connectors.Observed(found or _children(made), proxy_class, TAILNET)
    ask = parse_connector(obj, SETTINGS)
    wanted = connectors.wanted(ask, observed, SETTINGS)
    assert isinstance(wanted, Proxy)
    return connectors.plan(ask, wanted, observed, SETTINGS)


RECORDED_CLASS = {
    "statefulSet": {
        "labels": {"team": "web"},
        "annotations": {"note": "x"},
        "pod": {
            "labels": {"pod": "l"},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tailscaleContainer": {
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                "env": [{"name": "TS_DEBUG_FOO", "value": "1"}],
            },
            "tailscaleInitContainer": {
                "env": [{"name": "TS_EXTRA_ARGS", "value": "--advertise-tags=tag:k8s-operator"}]
            },
        },
    },
    "metrics": {"enable": True},
}
PLANS: dict[str, Callable[[dict[str, Object], Children | None], Plan]] = {
    "egress": egress_plan,
    "exposed": exposed_plan,
    "ingress": ingress_plan,
    "connector": connector_plan,
    "class": partial(connector_plan, proxy_class=live_proxy_class(spec=RECORDED_CLASS, ready=True)),
}
"""A map from the name of each recording to the function that plans its parent with the given children."""
