"""The Deployment of the API server proxy: its Pod runs the operator's own device, and the program behind the device.

In the container `tailscale`, tailscaled ends TLS, and forwards each connection with a PROXY header, which names the
caller. In the container `apiproxy`, a program asks tailscaled about the caller, and forwards to the API server.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tsoperator.api.apiserver import ProxyMode
from tsoperator.api.names import CERT_DOMAIN, SERVE_CONFIG_KEY
from tsoperator.api.objects import DEPLOYMENT, Object
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.proxypod import ProxyPod, served_apiserver
from tsoperator.proxy.replica import Replica
from tsoperator.proxy.statefulset import CONFIGS, configs, from_field, proxy_pod_spec, variable
from tsoperator.reconcilers.operatordevice.children import reference_to
from tsoperator.settings import Settings

CONTAINER: Final = "apiproxy"
"""The name of the container with the program that forwards to the API server."""

_USER: Final = 65532
_OTHER_USER: Final = 65533  # not tailscaled's user, so that the program can't change tailscaled's settings
_LOCALAPI: Final = "/var/run/tailscale"
_SOCKET: Final = f"{_LOCALAPI}/tailscaled.sock"
_PORT: Final = "41641"
"""The UDP port of the device, which is Tailscale's usual one.

The port has to stay the same when tailscaled restarts, because the devices of callers still send to this port then.
"""
_TLS_TARGET: Final = "127.0.0.2:8443"
_HTTP_TARGET: Final = "127.0.0.2:8080"
_HEALTH_PORT: Final = 9002
_TO_API: Final = "kube-api-access"
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_CA: Final[Object] = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
_NAMESPACE: Final[Object] = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
_TOKEN_SECONDS: Final = 3607  # the lifetime that Kubernetes itself asks for
_LEVELS: Final = {"WARNING": "warn"}
_PLACED: Final = ("nodeSelector", "affinity", "priorityClassName", "imagePullSecrets")
_LOST_AFTER: Final = 10
"""Seconds after which a Pod on a lost node is replaced."""
_LOST: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATIONS: Final[Sequence[Object]] = [
    {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _LOST_AFTER} for taint in _LOST
]


def serve_config(*, http: bool) -> Object:
    """Return the serve config of the device; with *http*, it also forwards plain HTTP."""
    forwarded: Object = {"443": {"TCPForward": _TLS_TARGET, "TerminateTLS": CERT_DOMAIN, "ProxyProtocol": 2}}
    if http:
        forwarded["80"] = {"TCPForward": _HTTP_TARGET, "ProxyProtocol": 2}
    return {"TCP": forwarded}


def device_pod(secret: str, settings: Settings) -> ProxyPod:
    """Return the part of the Pod that runs the device, whose state is in *secret*."""
    port = {"PORT": settings.operator_port or _PORT}
    config = f"{CONFIGS}/{secret}/{SERVE_CONFIG_KEY}"
    return served_apiserver(secret, {"TS_SOCKET": _SOCKET, "TS_SERVE_CONFIG": config, **port})


def placement(pod: Object) -> Object:
    """Return the parts of the spec of a *pod* that say on which nodes it runs, and how its images are pulled.

    The tolerations of lost nodes, which the API server adds to Pods, are left out: the API server proxy has its own.
    """
    spec = pod["spec"]
    tolerations = [each for each in spec.get("tolerations") or () if each.get("key") not in _LOST]
    containers = [{"image": each["image"], "imagePullPolicy": each["imagePullPolicy"]} for each in spec["containers"]]
    placed = {name: spec[name] for name in _PLACED if name in spec}
    return {**placed, "tolerations": tolerations, "containers": containers}


def proxy_deployment(proxy: Proxy, replica: Replica, account: Object, like: Object, settings: Settings) -> Object:
    """Return the Deployment of the API server proxy, with the one *replica* of *proxy*.

    Its owner is the ServiceAccount *account*, so that it is deleted when Helm uninstalls the chart. *like* is the
    `placement` of its Pod.
    """
    labels = proxy.owner.labels
    made = proxy.child(DEPLOYMENT, proxy.key.name, {"spec": {
        "replicas": 1,
        "revisionHistoryLimit": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _pod(proxy, replica, like, settings)},
    }})  # fmt: skip
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [reference_to(account)]}}


def _pod(proxy: Proxy, replica: Replica, like: Object, settings: Settings) -> Object:
    has_token = settings.apiserver_proxy is ProxyMode.AUTH
    spec = proxy_pod_spec(proxy.pod, configs([replica]), proxy.key.name, settings, None)
    (device,) = spec["containers"]
    socket = {"name": "localapi", "mountPath": _LOCALAPI}
    program = {
        **_program(like, settings),
        "volumeMounts": [socket, _mount(_TO_API if has_token else _volume_of_ca()["name"], _ACCOUNT)],
    }
    device = {
        **device,
        "securityContext": _restricted(_USER),
        "volumeMounts": [*device["volumeMounts"], socket, _mount(_TO_API, _ACCOUNT)],
    }
    return {
        **spec,
        **{name: like[name] for name in _PLACED if name in like},
        "tolerations": [*(like.get("tolerations") or ()), *_TOLERATIONS],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [device, program],
        "volumes": [
            *spec["volumes"],
            {"name": "localapi", "emptyDir": {}},
            _volume_of_account(),
            *(() if has_token else (_volume_of_ca(),)),
        ],
    }


def _program(like: Object, settings: Settings) -> Object:
    """Return the container that forwards to the API server, without its volumes.

    Its image is pulled in the same way as that of the Pod with the placement *like*.
    """
    same = (each for each in like.get("containers") or () if each["image"] == settings.operator_image)
    policy = next((each["imagePullPolicy"] for each in same), "IfNotPresent")
    return {
        "name": CONTAINER,
        "image": settings.operator_image,
        "imagePullPolicy": policy,
        "command": ["python3", "-m", "tsoperator.apiproxy"],
        "env": [*_environment(settings)],
        "ports": [{"name": "health", "protocol": "TCP", "containerPort": _HEALTH_PORT}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 1},
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            **{"periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 6},  # a flood of requests makes it slow
        },
        "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}},
        "securityContext": {**_restricted(_OTHER_USER), "readOnlyRootFilesystem": True},
    }


def _environment(settings: Settings) -> Iterator[Object]:
    yield variable("APISERVER_PROXY", settings.apiserver_proxy)
    if settings.apiserver_proxy_http:
        yield variable("APISERVER_PROXY_HTTP", "true")
    yield variable("TS_SOCKET", _SOCKET)
    yield from_field("POD_IP", "status.podIP")
    yield variable("OPERATOR_LOGGING", _LEVELS.get(settings.log_level, settings.log_level.lower()))
    yield variable("OPERATOR_LOG_FORMAT", settings.log_format)


def _restricted(user: int) -> Object:
    """Return the security context of a container that runs as *user*, by the Pod Security Standard `restricted`."""
    return {
        "runAsUser": user,
        "runAsGroup": user,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def _volume_of_account() -> Object:
    """Return the volume with all that a program needs to log in to the API server as the ServiceAccount."""
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}}
    return {"name": _TO_API, "projected": {"sources": [token, _CA, {"downwardAPI": {"items": [_NAMESPACE]}}]}}


def _volume_of_ca() -> Object:
    """Return the volume with the CA of the API server, and without a token."""
    return {"name": "kube-ca", "projected": {"sources": [_CA]}}


def _mount(volume: str, path: str) -> Object:
    return {"name": volume, "mountPath": path, "readOnly": True}
