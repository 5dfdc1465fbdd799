"""Decides what a DNSConfig needs: the nameserver's Deployment, Service, ServiceAccount and rights (dns-crds-chart.md
1.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tsnameserver.records import CONFIGMAP_NAME

from tsoperator.api.conditions import condition, set_condition
from tsoperator.api.names import (
    CONDITION_NAMESERVER_READY,
    LABEL_APP,
    NAMESERVER,
)
from tsoperator.api.objects import (
    DEPLOYMENT,
    DNSCONFIG,
    ROLE,
    ROLEBINDING,
    SERVICE,
    SERVICEACCOUNT,
    Object,
    Resource,
)
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.desired.nameserver import elected, nameserver_labels, owner_reference
from tsoperator.desired.plan import Note, Plan
from tsoperator.settings import Settings

_PORT: Final = 1053  # unprivileged; the Service takes 53 to it
_HEALTH_PORT: Final = 9002
_UPSTREAM_IMAGE: Final = "k8s-nameserver"


@dataclass(frozen=True, slots=True)
class Observed:
    """What a DNSConfig's plan depends on besides the DNSConfig."""

    dnsconfigs: Sequence[Object]
    service: Object | None = None


def plan(obj: Object, dnsconfig: DNSConfig | Invalid, observed: Observed, settings: Settings) -> Plan:
    """Return what the DNSConfig *obj*, parsed as *dnsconfig*, needs."""
    if isinstance(dnsconfig, Invalid):
        return _refused(obj, "NameserverInvalid", f"this DNSConfig is invalid: {dnsconfig.message}")
    first = elected(observed.dnsconfigs)
    if first is not None and first["metadata"]["uid"] != dnsconfig.metadata.uid:
        name = first["metadata"]["name"]
        return _refused(
            obj,
            "MultipleDNSConfigsPresent",
            f"a cluster has one nameserver, and DNSConfig {name!r} is older: delete one of the two",
        )
    children = [
        _service_account(dnsconfig, settings),
        _role(dnsconfig, settings),
        _role_binding(dnsconfig, settings),
        _deployment(dnsconfig, settings),
        _service(dnsconfig, settings, observed.service),
    ]
    return Plan(hold=True, apply=children, status=_status(obj, observed.service))


def _refused(obj: Object, reason: str, message: str) -> Plan:
    status = _with_condition(obj, condition(CONDITION_NAMESERVER_READY, False, reason, message, _generation(obj)))
    return Plan(status=status, notes=[Note("Warning", reason, message)])


def _status(obj: Object, service: Object | None) -> Object | None:
    """Return the status once the Service has its address."""
    cluster_ip = (service or {}).get("spec", {}).get("clusterIP")
    if not cluster_ip or cluster_ip == "None":
        return None
    ready = condition(CONDITION_NAMESERVER_READY, True, "NameserverCreated", "NameserverCreated", _generation(obj))
    return {**_with_condition(obj, ready), "nameserver": {"ip": cluster_ip}}


def _with_condition(obj: Object, wanted: Object) -> Object:
    status = obj.get("status") or {}
    return {**status, "conditions": set_condition(status.get("conditions") or [], [wanted], now="")}


def _generation(obj: Object) -> int:
    return int(obj["metadata"].get("generation", 0))


def _child(dnsconfig: DNSConfig, settings: Settings, resource: Resource, content: Mapping[str, object]) -> Object:
    name = dnsconfig.metadata.name
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "namespace": settings.namespace,
            "name": NAMESERVER,
            "labels": nameserver_labels(name, settings.namespace),
            "ownerReferences": [owner_reference(DNSCONFIG, name, dnsconfig.metadata.uid)],
        },
        **content,
    }


def _service_account(dnsconfig: DNSConfig, settings: Settings) -> Object:
    return _child(dnsconfig, settings, SERVICEACCOUNT, {})


def _role(dnsconfig: DNSConfig, settings: Settings) -> Object:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    return _child(dnsconfig, settings, ROLE, {"rules": [rule]})


def _role_binding(dnsconfig: DNSConfig, settings: Settings) -> Object:
    role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": NAMESERVER}
    subject = {"kind": SERVICEACCOUNT.kind, "name": NAMESERVER, "namespace": settings.namespace}
    return _child(dnsconfig, settings, ROLEBINDING, {"roleRef": role, "subjects": [subject]})


def _service(dnsconfig: DNSConfig, settings: Settings, live: Object | None) -> Object:
    """The cluster IP counts at creation only: the API server changes it for nobody."""
    spec: Object = {
        "selector": {LABEL_APP: NAMESERVER},
        "ports": [
            {"name": "udp", "port": 53, "targetPort": _PORT, "protocol": "UDP"},
            {"name": "tcp", "port": 53, "targetPort": _PORT, "protocol": "TCP"},
        ],
    }
    asked = dnsconfig.spec.nameserver.service.cluster_ip
    if cluster_ip := live["spec"].get("clusterIP") if live else asked:
        spec["clusterIP"] = cluster_ip
    return _child(dnsconfig, settings, SERVICE, {"spec": spec})


def _deployment(dnsconfig: DNSConfig, settings: Settings) -> Object:
    nameserver = dnsconfig.spec.nameserver
    image = _image(dnsconfig, settings)
    container: Object = {
        "name": NAMESERVER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "ports": [
            {"name": "tcp", "protocol": "TCP", "containerPort": _PORT},
            {"name": "udp", "protocol": "UDP", "containerPort": _PORT},
        ],
        "volumeMounts": [{"name": CONFIGMAP_NAME, "mountPath": "/config"}],
    }
    strategy: Object = {"type": "Recreate"}
    volume: Object = {"name": CONFIGMAP_NAME}
    if image.rpartition("/")[2].partition(":")[0].partition("@")[0] == _UPSTREAM_IMAGE:
        volume["configMap"] = {"name": CONFIGMAP_NAME}
    else:
        volume["configMap"] = {"name": CONFIGMAP_NAME, "optional": True}
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        container |= _our_container()
    pod: Object = {
        "containers": [container],
        "restartPolicy": "Always",
        "serviceAccount": NAMESERVER,
        "serviceAccountName": NAMESERVER,
        "volumes": [volume],
    }
    pod |= _placement(dnsconfig)
    spec = {
        "replicas": nameserver.replicas,
        "revisionHistoryLimit": 5,
        "selector": {"matchLabels": {LABEL_APP: NAMESERVER}},
        "strategy": strategy,
        "template": {"metadata": {"labels": {LABEL_APP: NAMESERVER}}, "spec": pod},
    }
    return _child(dnsconfig, settings, DEPLOYMENT, {"spec": spec})


def _our_container() -> Object:
    """What our nameserver's image offers beyond upstream's: probes, and no need of root or a writable file system."""
    return {
        "ports": [
            {"name": "tcp", "protocol": "TCP", "containerPort": _PORT},
            {"name": "udp", "protocol": "UDP", "containerPort": _PORT},
            {"name": "health", "protocol": "TCP", "containerPort": _HEALTH_PORT},
        ],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 2},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "failureThreshold": 6},
        "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _image(dnsconfig: DNSConfig, settings: Settings) -> str:
    """Repository and tag fall back to the operator's default each on its own; a default by digest has no tag."""
    image = dnsconfig.spec.nameserver.image
    if not (image.repo or image.tag):
        return settings.nameserver_image
    default, _, _ = settings.nameserver_image.partition("@")
    repo, colon, tag = default.rpartition(":")
    if not colon or "/" in tag:
        repo, tag = default, "latest"
    return f"{image.repo or repo}:{image.tag or tag}"


def _placement(dnsconfig: DNSConfig) -> Object:
    pod = dnsconfig.spec.nameserver.pod
    fields: Object = {
        "affinity": pod.affinity,
        "imagePullSecrets": list(pod.image_pull_secrets),
        "nodeSelector": dict(pod.node_selector),
        "tolerations": list(pod.tolerations),
    }
    return {name: value for name, value in fields.items() if value}
