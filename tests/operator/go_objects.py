"""What the Go operator 1.102.5 makes of a DNSConfig, Services, an Ingress and a Connector, as recorded on a cluster."""

import json
from base64 import b64encode

from tsoperator.api.names import DNS_FINALIZER, FINALIZER
from tsoperator.api.objects import Object, uid

SYSCTL = {
    "1.102": "sysctl -w net.ipv4.ip_forward=1 && if sysctl net.ipv6.conf.all.forwarding; "
    "then sysctl -w net.ipv6.conf.all.forwarding=1; fi",
    "1.103": "echo 1 > /proc/sys/net/ipv4/ip_forward && if [ -e /proc/sys/net/ipv6/conf/all/forwarding ]; "
    "then echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; fi",
}
"""The init script by the Go operator's version."""

IMAGE = "tailscale/tailscale:stable"
_TYPES = {"Service": "svc", "Ingress": "ingress", "Connector": "connector"}
_FROM_POD = {"POD_IP": "status.podIP", "POD_NAME": "metadata.name", "POD_UID": "metadata.uid"}


def labels(parent: Object) -> dict[str, str]:
    """Return the labels on the children of *parent*."""
    return {
        "tailscale.com/managed": "true",
        "tailscale.com/parent-resource": parent["metadata"]["name"],
        "tailscale.com/parent-resource-ns": parent["metadata"].get("namespace", ""),
        "tailscale.com/parent-resource-type": _TYPES[parent["kind"]],
    }


def headless(parent: Object, magic_dns_name: str = "") -> Object:
    """Return the headless Service; *magic_dns_name* is what the records reconciler noted on it."""
    metadata: Object = {"generateName": f"ts-{parent['metadata']['name']}-", "name": _name(parent)}
    metadata |= {"namespace": "tailscale", "labels": labels(parent)}
    if magic_dns_name:
        metadata |= {
            "annotations": {"tailscale.com/magic-dnsname": magic_dns_name},
            "finalizers": [DNS_FINALIZER],
        }
    spec = {"clusterIP": "None", "selector": {"app": uid(parent)}, "ipFamilyPolicy": "PreferDualStack"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def grouped(parent: Object, group: str, magic_dns_name: str = "") -> Object:
    """Return the Service through which an egress Service reaches the proxies of its ProxyGroup."""
    made = headless(parent, magic_dns_name)
    made["metadata"]["labels"] |= {"tailscale.com/proxy-group": group, "tailscale.com/svc-type": "egress"}
    ports = [
        {"name": "tailscale-unnamed", "protocol": "TCP", "port": 5432, "targetPort": 10437},
        {"name": "tailscale-health-check", "protocol": "TCP", "port": 9002, "targetPort": 9002},
    ]
    return made | {"spec": {"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "ports": ports}}


def certificate(parent: Object, group: str, domain: str) -> Object:
    """Return the Secret with the certificate of an Ingress that a ProxyGroup serves."""
    more = {"tailscale.com/proxy-group": group, "tailscale.com/domain": domain, "tailscale.com/secret-type": "certs"}
    metadata = {"namespace": "tailscale", "name": domain, "labels": labels(parent) | more}
    data = {"tls.crt": "", "tls.key": ""}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}


def secret(
    parent: Object,
    hostname: str,
    server: str,
    auth_key: str,
    serve_config: Object | None = None,
    more: Object | None = None,
) -> Object:
    """Return the Secret with the configuration, with *more* in it, of a proxy that has yet to log in."""
    head = {"Version": "alpha0", "Locked": False, "ServerURL": server, "AuthKey": auth_key, "Hostname": hostname}
    head |= {"acceptDNS": False, "acceptRoutes": False, **(more or {})}
    files = {
        "cap-107.hujson": {**head, "AppConnector": {"Advertise": False}, "NoStatefulFiltering": True},
        "cap-95.hujson": {**head, "NoStatefulFiltering": True},
        **({"serve-config": serve_config} if serve_config else {}),
    }
    data = {name: b64encode(json.dumps(content).encode()).decode() for name, content in files.items()}
    metadata = {"namespace": "tailscale", "name": f"{_name(parent)}-0", "labels": labels(parent)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def egress_statefulset(parent: Object, fqdn: str, script: str = SYSCTL["1.102"]) -> Object:
    """Return the StatefulSet of an egress proxy by name."""
    env = {"TS_TAILNET_TARGET_FQDN": f"{fqdn}.", "TS_INTERNAL_APP": "k8s-operator-egress-proxy"}
    note = {"tailscale.com/operator-last-set-ts-tailnet-target-fqdn": f"{fqdn}."}
    note["kubectl.kubernetes.io/restartedAt"] = "2026-01-02T03:04:05Z"  # somebody ran kubectl rollout restart
    return _statefulset(parent, _in_kernel(parent, env, script), {"annotations": note})


def exposed_statefulset(parent: Object) -> Object:
    """Return the StatefulSet of a proxy that forwards to the cluster IP of *parent*."""
    address = parent["spec"]["clusterIP"]
    env = {"TS_DEST_IP": address, "TS_INTERNAL_APP": "k8s-operator-ingress-proxy"}
    note = {"tailscale.com/operator-last-set-cluster-ip": address}
    return _statefulset(parent, _in_kernel(parent, env, SYSCTL["1.102"]), {"annotations": note})


def ingress_statefulset(parent: Object) -> Object:
    """Return the StatefulSet of an Ingress's proxy."""
    env = {"TS_SERVE_CONFIG": "/etc/tailscaled/$(POD_NAME)/serve-config"}
    env |= {"TS_INTERNAL_APP": "k8s-operator-ingress-resource"}
    container = _container(parent, {"TS_USERSPACE": "true"}, env)
    name = f"{_name(parent)}-0"
    container["volumeMounts"].append(
        {"name": "serve-config-0", "mountPath": f"/etc/tailscaled/{name}", "readOnly": True}
    )
    items = [{"key": "serve-config", "path": "serve-config"}]
    volume = {"name": "serve-config-0", "secret": {"secretName": name, "items": items}}
    return _statefulset(parent, {"containers": [container]}, {}, volume)


def exit_node(parent: Object, server: str, auth_keys: list[str]) -> list[Object]:
    """Return the Secrets and the StatefulSet of a Connector with a replica for each key, named by a prefix."""
    replicas = range(len(auth_keys))
    names = [f"{_name(parent)}-{number}" for number in replicas]
    container = _container(parent, {"TS_USERSPACE": "false"}, {"TS_INTERNAL_APP": "k8s-operator-connector-resource"})
    container["securityContext"] = {"privileged": True}
    container["volumeMounts"] = [
        {"name": f"tailscaledconfig-{number}", "mountPath": f"/etc/tsconfig/{names[number]}", "readOnly": True}
        for number in replicas
    ]
    sysctler = {"name": "sysctler", "image": IMAGE, "command": ["/bin/sh", "-c"], "args": [SYSCTL["1.102"]]}
    pod = {"containers": [container], "initContainers": [sysctler | {"securityContext": {"privileged": True}}]}
    more = [{"name": f"tailscaledconfig-{number}", "secret": {"secretName": names[number]}} for number in replicas[1:]]
    statefulset = _statefulset(parent, pod, {}, *more)
    statefulset["spec"]["replicas"] = len(auth_keys)
    prefix = parent["spec"]["hostnamePrefix"]
    routes = {"AdvertiseRoutes": ["0.0.0.0/0", "::/0"]}
    secrets = [secret(parent, f"{prefix}-{number}", server, auth_keys[number], more=routes) for number in replicas]
    for made, name in zip(secrets, names, strict=True):
        made["metadata"]["name"] = name
    return [*secrets, statefulset]


def nameserver(dnsconfig: Object, document: str) -> list[Object]:
    """Return the nameserver's ServiceAccount, Deployment, Service and ConfigMap with a *document* of records."""
    name = dnsconfig["metadata"]["name"]
    owned = labels({"kind": "Service", "metadata": {"name": name, "namespace": "tailscale"}})
    owned |= {"tailscale.com/parent-resource-type": "nameserver", "app.kubernetes.io/name": "tailscale"}
    owned |= {"app.kubernetes.io/component": "nameserver"}
    reference = {"apiVersion": "tailscale.com/v1alpha1", "kind": "DNSConfig", "name": name, "uid": uid(dnsconfig)}
    reference |= {"controller": True, "blockOwnerDeletion": True}
    metadata = {"namespace": "tailscale", "name": "nameserver", "labels": owned, "ownerReferences": [reference]}
    ports = [{"name": "udp", "port": 53, "targetPort": 1053, "protocol": "UDP"}]
    ports.append({"name": "tcp", "port": 53, "targetPort": 1053, "protocol": "TCP"})
    records = {"metadata": {**metadata, "name": "dnsrecords"}, "data": {"records.json": document}}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": _nameserver_spec()},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": "nameserver"}, "ports": ports},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", **records},
    ]


def held(parent: Object) -> Object:
    """Return the patch with which the Go operator keeps *parent* until its proxy is gone."""
    return {"metadata": {"finalizers": [*parent["metadata"].get("finalizers", ()), FINALIZER]}}


def _name(parent: Object) -> str:
    return f"ts-{parent['metadata']['name']}-x7k2p"


def _in_kernel(parent: Object, env: dict[str, str], script: str) -> Object:
    container = _container(parent, {"TS_USERSPACE": "false"}, env) | {"securityContext": {"privileged": True}}
    sysctler = {"name": "sysctler", "image": IMAGE, "command": ["/bin/sh", "-c"], "args": [script]}
    return {"containers": [container], "initContainers": [sysctler | {"securityContext": {"privileged": True}}]}


def _container(parent: Object, first: dict[str, str], last: dict[str, str]) -> Object:
    fields = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in _FROM_POD.items()]
    values = {
        "TS_KUBE_SECRET": "$(POD_NAME)",
        "TS_EXPERIMENTAL_SERVICE_AUTO_ADVERTISEMENT": "false",
        "TS_EXPERIMENTAL_VERSIONED_CONFIG_DIR": "/etc/tsconfig/$(POD_NAME)",
        "TS_DEBUG_ACME_FORCE_RENEWAL": "true",
        "TS_DEBUG_FIREWALL_MODE": "auto",
        **last,
    }
    mount = {"name": "tailscaledconfig-0", "mountPath": f"/etc/tsconfig/{_name(parent)}-0", "readOnly": True}
    return {
        "name": "tailscale",
        "image": IMAGE,
        "imagePullPolicy": "Always",
        "env": [*_variables(first), *fields, *_variables(values)],
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        "volumeMounts": [mount],
    }


def _variables(values: dict[str, str]) -> list[Object]:
    return [{"name": key, "value": value} for key, value in values.items()]


def _statefulset(parent: Object, pod: Object, template: Object, *volumes: Object) -> Object:
    name = _name(parent)
    app = {"app": uid(parent)}
    config = {"name": "tailscaledconfig-0", "secret": {"secretName": f"{name}-0"}}
    pod = {"serviceAccountName": "proxies", "volumes": [config, *volumes], **pod}
    metadata = {"labels": {**app, **labels(parent)}, "deletionGracePeriodSeconds": 10, **template}
    spec = {"replicas": 1, "serviceName": name, "selector": {"matchLabels": app}}
    spec["template"] = {"metadata": metadata, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": "tailscale", "name": name, "labels": labels(parent)},
        "spec": spec,
    }


def _nameserver_spec() -> Object:
    container = {
        "name": "nameserver",
        "image": "tailscale/k8s-nameserver:stable",
        "imagePullPolicy": "IfNotPresent",
        "ports": [
            {"name": "tcp", "protocol": "TCP", "containerPort": 1053},
            {"name": "udp", "protocol": "UDP", "containerPort": 1053},
        ],
        "volumeMounts": [{"name": "dnsrecords", "mountPath": "/config"}],
    }
    pod = {
        "containers": [container],
        "restartPolicy": "Always",
        "serviceAccount": "nameserver",
        "serviceAccountName": "nameserver",
        "volumes": [{"name": "dnsrecords", "configMap": {"name": "dnsrecords"}}],
    }
    return {
        "replicas": 1,
        "revisionHistoryLimit": 5,
        "selector": {"matchLabels": {"app": "nameserver"}},
        "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": {"app": "nameserver"}}, "spec": pod},
    }
