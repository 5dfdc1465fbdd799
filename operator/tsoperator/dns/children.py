"""The children of a DNSConfig: the nameserver's Service, ServiceAccount, rights and Deployment."""

from collections.abc import Mapping
from typing import Final

from tsnameserver.records import CONFIGMAP_NAME

from tsoperator.api.names import LABEL_APP, LABEL_MANAGED, MANAGED, NAMESERVER
from tsoperator.api.objects import DEPLOYMENT, DNSCONFIG, ROLE, ROLEBINDING, SERVICE, SERVICEACCOUNT, Object, Resource
from tsoperator.api.v1alpha1.dnsconfig import DNSConfig
from tsoperator.dns.nameserver import NameserverImage, Program, nameserver_labels
from tsoperator.runtime.ownership import owner_reference
from tsoperator.settings import Settings

_PORT: Final = 1053  # unprivileged; the Service forwards port 53 to it
_HEALTH_PORT: Final = 9002
_METRICS_PORT: Final = 9153
_SNAPSHOT: Final = "snapshot"
_DRAIN: Final = 10
"""The seconds for which a Pod of the nameserver goes on answering queries after the kubelet has told it to stop.

During that time the Pod isn't ready. The kubelet notices that within 6 s. After that, nodes send the Pod no more
packets, not even those of a client whose earlier packets went to this Pod.
"""
_SETTLE: Final = 5
"""The seconds for which a new Pod of the nameserver has to be ready before the old Pod stops.

Nodes can take that long to learn that the new Pod is ready.
"""


def service_account(dnsconfig: DNSConfig, settings: Settings) -> Object:
    """Return the ServiceAccount of the nameserver of *dnsconfig*."""
    return _child(dnsconfig, settings, SERVICEACCOUNT, {})


def role(dnsconfig: DNSConfig, settings: Settings) -> Object:
    """Return the Role that lets the nameserver of *dnsconfig* read its records."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    return _child(dnsconfig, settings, ROLE, {"rules": [rule]})


def role_binding(dnsconfig: DNSConfig, settings: Settings) -> Object:
    """Return the RoleBinding that gives the Role of `role` to the ServiceAccount of the nameserver of *dnsconfig*."""
    reference = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": NAMESERVER}
    subject = {"kind": SERVICEACCOUNT.kind, "name": NAMESERVER, "namespace": settings.namespace}
    return _child(dnsconfig, settings, ROLEBINDING, {"roleRef": reference, "subjects": [subject]})


def service(
    dnsconfig: DNSConfig, settings: Settings, live: Object | None, address: str, *, selects_ours: bool
) -> Object:
    """Return the Service that the nameserver of *dnsconfig* should have; *live* is the existing one, if any.

    If *selects_ours* is true, the Service selects only Pods of our nameserver, and no Pod of the Go operator's. A new
    Service gets the cluster IP in the DNSConfig, or *address* if the DNSConfig has none. An existing Service keeps its
    cluster IP, because Kubernetes doesn't let anybody change it.
    """
    spec: Object = {
        "selector": {LABEL_APP: NAMESERVER, **({LABEL_MANAGED: MANAGED} if selects_ours else {})},
        "ports": [
            {"name": "udp", "port": 53, "targetPort": _PORT, "protocol": "UDP"},
            {"name": "tcp", "port": 53, "targetPort": _PORT, "protocol": "TCP"},
        ],
    }
    asked = dnsconfig.spec.nameserver.service.cluster_ip or address
    if cluster_ip := live["spec"].get("clusterIP") if live else asked:
        spec["clusterIP"] = cluster_ip
    return _child(dnsconfig, settings, SERVICE, {"spec": spec})


def deployment(dnsconfig: DNSConfig, image: NameserverImage, settings: Settings) -> Object:
    """Return the Deployment that runs the nameserver from *image*."""
    nameserver = dnsconfig.spec.nameserver
    container: Object = {
        "name": NAMESERVER,
        "image": image.reference,
        "imagePullPolicy": "IfNotPresent",
        "ports": [
            {"name": "tcp", "protocol": "TCP", "containerPort": _PORT},
            {"name": "udp", "protocol": "UDP", "containerPort": _PORT},
        ],
        "volumeMounts": [{"name": CONFIGMAP_NAME, "mountPath": "/config"}],
    }
    strategy: Object = {"type": "Recreate"}
    pace: Object = {}
    pod_labels = {LABEL_APP: NAMESERVER}
    volume: Object
    if image.program is not Program.OURS:  # Tailscale's program or an unknown one: both programs can read this volume
        volume = {"name": CONFIGMAP_NAME, "configMap": {"name": CONFIGMAP_NAME}}
    else:
        volume = {"name": _SNAPSHOT, "emptyDir": {}}
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        container |= _our_container(settings)
        if image.reference.endswith(":latest"):  # Kubernetes's own default, for our image only
            container["imagePullPolicy"] = "Always"
        pace = {"minReadySeconds": _SETTLE}
        pod_labels |= nameserver_labels(dnsconfig.metadata.name, settings.namespace)
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
        **pace,
        "template": {"metadata": {"labels": pod_labels}, "spec": pod},
    }
    return _child(dnsconfig, settings, DEPLOYMENT, {"spec": spec})


def _our_container(settings: Settings) -> Object:
    """Return the fields of the nameserver's container that only our image supports.

    The container has probes and the operator's log format, and needs neither root nor a writable file system. It reads
    the records from the API server, so it needs no mounted records. It keeps a snapshot of the records on a volume,
    because its container may have to restart while the API server can't be reached. The path of the snapshot is in an
    environment variable and not in a flag, because earlier versions of the image ignore an unknown variable, but exit
    at an unknown flag.
    """
    env = [{"name": "TSNAMESERVER_SNAPSHOT", "value": f"/{_SNAPSHOT}/records"}]
    if settings.log_format != "text":
        env.append({"name": "TSNAMESERVER_LOG_FORMAT", "value": settings.log_format})
    if settings.nameserver_log_queries:
        env.append({"name": "TSNAMESERVER_LOG_QUERIES", "value": settings.nameserver_log_queries})
    return {
        "env": env,
        "volumeMounts": [{"name": _SNAPSHOT, "mountPath": f"/{_SNAPSHOT}"}],
        "args": [f"--drain={_DRAIN}"],
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


def _placement(dnsconfig: DNSConfig) -> Object:
    pod = dnsconfig.spec.nameserver.pod
    fields: Object = {
        "affinity": pod.affinity,
        "imagePullSecrets": list(pod.image_pull_secrets),
        "nodeSelector": dict(pod.node_selector),
        "tolerations": list(pod.tolerations),
    }
    return {name: value for name, value in fields.items() if value}


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
