"""Decides what a DNSConfig needs: the nameserver's Deployment, Service, ServiceAccount and rights (dns-crds-chart.md
1.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tsnameserver.records import CONFIGMAP_NAME, MAX_SHARDS, RECORDS_KEY

from tsoperator.api.conditions import condition, remove_condition, set_condition
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
    annotations,
)
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.desired.children import owner_reference
from tsoperator.desired.nameserver import (
    ANNOTATION_LEFT_OUT,
    elected,
    is_upstream,
    nameserver_image,
    nameserver_labels,
    reads_shards,
)
from tsoperator.desired.plan import Note, Plan
from tsoperator.settings import Settings

_PORT: Final = 1053  # unprivileged; the Service takes 53 to it
_HEALTH_PORT: Final = 9002
_METRICS_PORT: Final = 9153

CONDITION_RECORDS_COMPLETE: Final = "RecordsComplete"
"""On a DNSConfig whose nameserver doesn't know all names; it is False, or not there."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a DNSConfig's plan depends on besides the DNSConfig."""

    dnsconfigs: Sequence[Object]
    service: Object | None = None
    records: Object | None = None
    deployment: Object | None = None


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
    return Plan(hold=True, apply=children, status=_status(obj, dnsconfig, observed, settings))


def _refused(obj: Object, reason: str, message: str) -> Plan:
    status = _with_condition(obj, condition(CONDITION_NAMESERVER_READY, False, reason, message, _generation(obj)))
    return Plan(status=status, notes=[Note("Warning", reason, message)])


def _status(obj: Object, dnsconfig: DNSConfig, observed: Observed, settings: Settings) -> Object | None:
    """Return the status once the Service has its address; it tells of records only while some are left out."""
    cluster_ip = (observed.service or {}).get("spec", {}).get("clusterIP")
    if not cluster_ip or cluster_ip == "None":
        return None
    ready = condition(CONDITION_NAMESERVER_READY, True, "NameserverCreated", "NameserverCreated", _generation(obj))
    status = _with_condition(obj, ready)
    left_out = annotations(observed.records).get(ANNOTATION_LEFT_OUT) if observed.records else None
    if left_out:
        message = _words_for(left_out, nameserver_image(dnsconfig, settings), observed.deployment)
        incomplete = condition(CONDITION_RECORDS_COMPLETE, False, "TooManyNames", message, _generation(obj))
        status = _with_condition({"status": status}, incomplete)
    else:
        status = {**status, "conditions": remove_condition(status["conditions"], CONDITION_RECORDS_COMPLETE)}
    return {**status, "nameserver": {"ip": cluster_ip}}


def _words_for(left_out: str, image: str, deployment: Object | None) -> str:
    if is_upstream(image):
        return (
            f"{left_out} names don't resolve: {image} reads one ConfigMap, and it is full: "
            "set spec.nameserver.image to this operator's nameserver, which reads several"
        )
    if not reads_shards(deployment):
        return (
            f"{left_out} names don't resolve: one ConfigMap is full, and there will be more when all Pods of "
            f"Deployment {NAMESERVER} run {image}: see what its rollout waits for"
        )
    return f"{left_out} names don't resolve: {MAX_SHARDS} ConfigMaps are full, and there can't be more"


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
    image = nameserver_image(dnsconfig, settings)
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
    if is_upstream(image):
        volume["configMap"] = {"name": CONFIGMAP_NAME}
    else:
        volume["projected"] = {"sources": [_shard_source(shard) for shard in range(MAX_SHARDS)]}
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
            {"name": "metrics", "protocol": "TCP", "containerPort": _METRICS_PORT},
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


def _shard_source(shard: int) -> Object:
    """Mount the records of one shard, once there are so many, beside those of the others."""
    suffix = f"-{shard}" if shard else ""
    items = [{"key": RECORDS_KEY, "path": RECORDS_KEY.replace(".", f"{suffix}.")}]
    return {"configMap": {"name": f"{CONFIGMAP_NAME}{suffix}", "items": items, "optional": True}}


def _placement(dnsconfig: DNSConfig) -> Object:
    pod = dnsconfig.spec.nameserver.pod
    fields: Object = {
        "affinity": pod.affinity,
        "imagePullSecrets": list(pod.image_pull_secrets),
        "nodeSelector": dict(pod.node_selector),
        "tolerations": list(pod.tolerations),
    }
    return {name: value for name, value in fields.items() if value}
