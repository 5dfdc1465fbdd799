"""Builders of the facts about an API server proxy, for the tests of its plan."""

from typing import Any

from tsoperator.api.apiserver import ProxyMode
from tsoperator.api.device import Device
from tsoperator.api.objects import DEPLOYMENT, POD, SERVICEACCOUNT, Key, Object, key_of
from tsoperator.proxy.devices import TailnetView
from tsoperator.proxy.login import Keys
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.reconcilers.operatordevice.apiserverproxy import ObservedProxy, plan
from tsoperator.reconcilers.operatordevice.ask import Ask, ask_of
from tsoperator.reconcilers.operatordevice.deployment import placement
from tsoperator.runtime.plan import Child
from tsoperator.settings import Settings

from tests.support.objects import OPERATOR_NAMESPACE, obj, settings, slim_secret, stored, texts

IMAGE = "example.org/operator:v1"
PLACED: Object = {
    "nodeSelector": {"disk": "ssd"},
    "affinity": {"podAntiAffinity": {}},
    "priorityClassName": "high",
    "imagePullSecrets": [{"name": "registry"}],
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
}
OWN: Object = obj(DEPLOYMENT, Key(OPERATOR_NAMESPACE, "operator"))
"""The operator's own Deployment, as the cache has it."""

OWN_POD: Object = obj(
    POD,
    Key(OPERATOR_NAMESPACE, "operator-7d9f8c4b5-x2x2x"),
    {
        "spec": {
            **PLACED,
            "tolerations": [
                *PLACED["tolerations"],
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
            ],
            "serviceAccountName": "operator",
            "nodeName": "node1",
            "containers": [{"name": "operator", "image": IMAGE, "imagePullPolicy": "Always", "env": []}],
        }
    },
)
"""The operator's own Pod, as the API server has it."""


def serving(mode: ProxyMode = ProxyMode.AUTH, **changes: Any) -> Settings:
    """Return settings that ask for an API server proxy in this *mode*."""
    given = {"operator_secret": "operator", "operator_image": IMAGE, "apiserver_proxy": mode, **changes}
    return settings(**given)


SETTINGS = serving()
ASK: Ask = ask_of(SETTINGS)
ACCOUNT = obj(SERVICEACCOUNT, ASK.deployment)
NEW = ObservedProxy(account=ACCOUNT, own=OWN, like=placement(OWN_POD))
"""The facts before the operator has made an object."""

NAME = "tailscale-operator.tail1234.ts.net"
DEVICE = Device("nABC", NAME, "tailscale-operator", ("100.64.0.1",), ("tag:k8s-operator",))
REPORTED = {"device_id": "nABC", "device_fqdn": f"{NAME}.", "pod_uid": "pod-uid", "tailscale_capver": "142"}
"""The data about the device that the proxy reports in its state Secret."""

POD_OF_PROXY = obj(
    POD,
    Key(OPERATOR_NAMESPACE, "operator-apiserver-proxy-1-x"),
    uid="pod-uid",
    ownerReferences=[{"kind": "ReplicaSet"}],
)


def state(**data: str) -> Object:
    """Return the slim state Secret of the device, with the reported *data*."""
    return slim_secret("operator", data)


def config(auth_key: str = "", given: Settings = SETTINGS) -> Object:
    """Return the slim config Secret as the operator writes it for the settings *given* and this *auth_key*."""
    steps = plan(ask_of(given), NEW, given, Keys({0: auth_key})).plan.steps
    (written,) = (step.obj for step in steps if key_of(step.obj) == ASK.config)  # type: ignore[union-attr]
    secret = slim_secret("operator-config", texts(written), ASK.owner.labels)
    return {**secret, "metadata": {**secret["metadata"], "ownerReferences": written["metadata"]["ownerReferences"]}}


def deployment(given: Settings = SETTINGS, observed: ObservedProxy = NEW) -> Object:
    """Return the Deployment as the operator writes it for the settings *given* and the facts *observed*."""
    steps = plan(ask_of(given), observed, given, Keys({0: "tskey-1"})).plan.steps
    (made,) = (step.obj for step in steps if isinstance(step, Child))
    return made


def seen(*devices: Device) -> TailnetView:
    """Return the view of a tailnet that has *devices*."""
    return TailnetView(devices={each.node_id: each for each in devices})


RUNNING = ObservedProxy(
    stored(deployment(), creationTimestamp="2026-01-02T03:04:05Z"),
    account=ACCOUNT,
    own=OWN,
    like=placement(OWN_POD),
    secrets=ReplicaSecrets(config(), state(**REPORTED)),
    pods=[POD_OF_PROXY],
    tailnet=seen(DEVICE),
)
"""The facts about a proxy that runs."""
