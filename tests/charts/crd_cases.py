"""Objects of our kinds that the API server accepts or refuses, by the CRDs (dns-crds-chart.md section 7)."""

from typing import Any, NamedTuple

Object = dict[str, Any]

CONTAINER = "statefulSet.pod.tailscaleContainer"
INIT_CONTAINER = "statefulSet.pod.tailscaleInitContainer"
POD = "statefulSet.pod"
RESOURCES = f"{CONTAINER}.resources"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CIDR = {"subnetRouter": {"advertiseRoutes": ["192.0.2.0/24"]}}
IPS = [{"allocationID": f"eipalloc-{number:x}", "subnetID": "subnet-0a"} for number in range(3)]


def nested(path: str, value: Any) -> Object:
    """Return *value* at a dotted path."""
    for name in reversed(path.split(".")):
        value = {name: value}
    made: Object = value
    return made


def without(obj: Object, name: str) -> Object:
    """Return *obj* without one of its fields."""
    return {key: value for key, value in obj.items() if key != name}


class Case(NamedTuple):
    """A spec, and the part of the refusal that names what is wrong; empty if it is accepted."""

    kind: str
    spec: Any
    refused: str = ""


CONNECTORS = [
    Case("Connector", {"exitNode": True}),
    Case("Connector", CIDR),
    Case("Connector", {**CIDR, "exitNode": True}),
    Case("Connector", {"appConnector": {}}),
    Case("Connector", {"appConnector": {"routes": ["192.0.2.0/24"]}}),
    Case("Connector", {"subnetRouter": {"advertiseRoutes": ["192.0.2.0/24", "2001:db8::/32"]}}),
    Case("Connector", {"exitNode": True, "replicas": 0}),
    Case("Connector", {"exitNode": True, "replicas": 3}),
    Case("Connector", {"exitNode": True, "replicas": 2**31 - 1}),
    Case("Connector", {"exitNode": True, "replicas": None}),
    Case("Connector", {"exitNode": True, "nobody": "knows this"}),
    Case("Connector", {"exitNode": True, "replicas": 3, "hostnamePrefix": "gate"}),
    Case("Connector", {"exitNode": True, "replicas": 1, "hostname": "gate"}),
    Case("Connector", {"exitNode": True, "replicas": 0, "hostname": "gate"}),
    Case("Connector", {"appConnector": {}, "exitNode": False}),
    Case("Connector", {"exitNode": True, "hostname": "ab"}),
    Case("Connector", {"exitNode": True, "hostname": "a" * 63}),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "a"}),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "a" * 62}),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "a-"}),
    Case("Connector", {"exitNode": True, "tags": []}),
    Case("Connector", {"exitNode": True, "tags": ["tag:k8s", "tag:A-1"]}),
    Case("Connector", {"exitNode": True, "proxyClass": "prod", "tailnet": "other"}),
    Case("Connector", {}, "must be a subnet router, an exit node or an app connector"),
    Case("Connector", {"exitNode": False}, "must be a subnet router, an exit node or an app connector"),
    Case("Connector", {"appConnector": {}, "exitNode": True}, "an app connector can't be"),
    Case("Connector", {"appConnector": {}, **CIDR}, "an app connector can't be"),
    Case("Connector", {"subnetRouter": {}}, "spec.subnetRouter.advertiseRoutes: Required"),
    Case("Connector", {"subnetRouter": {"advertiseRoutes": []}}, "spec.subnetRouter.advertiseRoutes"),
    Case("Connector", {"subnetRouter": {"advertiseRoutes": ["192.0.2.0"]}}, "spec.subnetRouter.advertiseRoutes[0]"),
    Case("Connector", {"subnetRouter": {"advertiseRoutes": ["x/8"]}}, "spec.subnetRouter.advertiseRoutes[0]"),
    Case("Connector", {"appConnector": {"routes": []}}, "spec.appConnector.routes"),
    Case("Connector", {"appConnector": {"routes": ["example.org"]}}, "spec.appConnector.routes[0]"),
    Case("Connector", {"exitNode": True, "replicas": -1}, "spec.replicas"),
    Case("Connector", {"exitNode": True, "replicas": 1.5}, "spec.replicas"),
    Case("Connector", {"exitNode": True, "replicas": 2**31}, "spec.replicas"),
    Case(
        "Connector", {"exitNode": True, "replicas": 0, "hostname": "ab", "hostnamePrefix": "ab"}, "exclude each other"
    ),
    Case("Connector", {"exitNode": True, "replicas": 2, "hostname": "gate"}, "use hostnamePrefix"),
    Case("Connector", {"exitNode": True, "hostname": "ab", "hostnamePrefix": "ab"}, "exclude each other"),
    Case("Connector", {"exitNode": True, "hostname": "a"}, "spec.hostname"),
    Case("Connector", {"exitNode": True, "hostname": "a" * 64}, "spec.hostname"),
    Case("Connector", {"exitNode": True, "hostname": "Gate"}, "spec.hostname"),
    Case("Connector", {"exitNode": True, "hostname": "gate-"}, "spec.hostname"),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "-a"}, "spec.hostnamePrefix"),
    Case("Connector", {"exitNode": True, "hostnamePrefix": "a" * 63}, "spec.hostnamePrefix"),
    Case("Connector", {"exitNode": True, "tags": ["k8s"]}, "spec.tags[0]"),
    Case("Connector", {"exitNode": True, "tags": ["tag:1a"]}, "spec.tags[0]"),
    Case("Connector", {"exitNode": True, "tags": ["tag:"]}, "spec.tags[0]"),
    Case("Connector", {"exitNode": "yes"}, "spec.exitNode"),
    Case("Connector", None, "spec: Required"),
]
DNSCONFIGS = [
    Case("DNSConfig", {"nameserver": {}}),
    Case("DNSConfig", {"nameserver": {"image": {"repo": "tsnameserver", "tag": "v1"}}}),
    Case("DNSConfig", {"nameserver": {"service": {"clusterIP": "192.0.2.53"}}}),
    Case("DNSConfig", {"nameserver": {"replicas": 0}}),
    Case("DNSConfig", {"nameserver": {"pod": {"tolerations": [{"key": "a", "operator": "Exists"}]}}}),
    Case("DNSConfig", {"nameserver": {"pod": {"affinity": {"podAntiAffinity": {}}}}}),
    Case("DNSConfig", {"nameserver": {"pod": {"nodeSelector": {"disk": "ssd"}}}}),
    Case("DNSConfig", {}, "spec.nameserver: Required"),
    Case("DNSConfig", None, "spec: Required"),
    Case("DNSConfig", {"nameserver": {"replicas": -1}}, "spec.nameserver.replicas"),
    Case("DNSConfig", {"nameserver": {"replicas": "two"}}, "spec.nameserver.replicas"),
    Case("DNSConfig", {"nameserver": {"pod": {"nodeSelector": {"disk": 1}}}}, "spec.nameserver.pod.nodeSelector"),
    Case("DNSConfig", {"nameserver": {"image": "tsnameserver"}}, "spec.nameserver.image"),
]
PROXYCLASSES = [
    Case("ProxyClass", {}),
    Case("ProxyClass", {"metrics": {"enable": False}}),
    Case("ProxyClass", {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"a": "b"}}}}),
    Case("ProxyClass", {"metrics": {"enable": False, "serviceMonitor": {"enable": False}}}),
    Case("ProxyClass", {"tailscale": {"acceptRoutes": True}, "useLetsEncryptStagingEnvironment": True}),
    Case("ProxyClass", {"statefulSet": {"labels": {"a": "", "b": "c.d_e-F"}, "annotations": {"a": "any thing"}}}),
    Case("ProxyClass", {"statefulSet": {"labels": {"a": "b" * 63}}}),
    Case("ProxyClass", nested(f"{POD}.labels", {"a": "b" * 63})),
    Case("ProxyClass", {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"a": "b" * 63}}}}),
    *(
        Case("ProxyClass", nested(f"{POD}.dnsPolicy", policy))
        for policy in ("None", "Default", "ClusterFirst", "ClusterFirstWithHostNet")
    ),
    Case("ProxyClass", nested(f"{POD}.securityContext", {"runAsUser": 1000, "sysctls": [{"name": "a", "value": "b"}]})),
    Case("ProxyClass", nested(f"{POD}.dnsConfig", {"nameservers": ["192.0.2.53"], "options": [{"name": "ndots"}]})),
    Case("ProxyClass", nested(f"{POD}.affinity", {"nodeAffinity": {}})),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"name": "A"}, {"name": "-b.C_1", "value": "$(A)"}])),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])),
    Case("ProxyClass", nested(f"{INIT_CONTAINER}.env", [{"name": "A"}])),
    Case("ProxyClass", nested(f"{RESOURCES}.limits", {"cpu": 1, "memory": "64Mi"})),
    Case(
        "ProxyClass", nested(f"{RESOURCES}.requests", {"cpu": ".5", "memory": "+1.5e9", "other": "-1", "more": "100m"})
    ),
    Case("ProxyClass", nested(f"{RESOURCES}.claims", [{"name": "a"}, {"name": "b", "request": "one"}])),
    *(
        Case("ProxyClass", nested(f"{container}.imagePullPolicy", policy))
        for container, policy in ((CONTAINER, "IfNotPresent"), (CONTAINER, "Never"), (INIT_CONTAINER, "Always"))
    ),
    Case("ProxyClass", nested(f"{CONTAINER}.debug", {"enable": True})),
    Case("ProxyClass", nested("staticEndpoints.nodePort.ports", [{"port": 30000}, {"port": 30001, "endPort": 30009}])),
    Case("ProxyClass", nested("staticEndpoints.nodePort.ports", [{"port": 0}])),
    Case("ProxyClass", None, "spec: Required"),
    Case("ProxyClass", {"metrics": {}}, "spec.metrics.enable: Required"),
    Case("ProxyClass", {"metrics": {"enable": False, "serviceMonitor": {"enable": True}}}, "needs metrics"),
    Case("ProxyClass", {"metrics": {"enable": True, "serviceMonitor": {}}}, "serviceMonitor.enable: Required"),
    Case(
        "ProxyClass",
        {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"a": "b c"}}}},
        "spec.metrics.serviceMonitor.labels",
    ),
    Case("ProxyClass", {"statefulSet": {"labels": {"a": "b!"}}}, "spec.statefulSet.labels"),
    Case("ProxyClass", {"statefulSet": {"labels": {"a": "a" * 64}}}, "spec.statefulSet.labels"),
    Case("ProxyClass", nested(f"{POD}.labels", {"a": "-b"}), "spec.statefulSet.pod.labels"),
    Case("ProxyClass", nested(f"{POD}.labels", {"a": "b" * 64}), "spec.statefulSet.pod.labels"),
    Case(
        "ProxyClass",
        {"metrics": {"enable": True, "serviceMonitor": {"enable": True, "labels": {"a": "b" * 64}}}},
        "spec.metrics.serviceMonitor.labels",
    ),
    Case("ProxyClass", nested(f"{POD}.dnsPolicy", "Cluster"), "spec.statefulSet.pod.dnsPolicy"),
    Case("ProxyClass", nested(f"{POD}.securityContext", {"runAsUser": "root"}), "securityContext.runAsUser"),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"value": "b"}]), "env[0].name: Required"),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"name": "1a"}]), "env[0].name"),
    Case("ProxyClass", nested(f"{CONTAINER}.env", [{"name": "a b"}]), "env[0].name"),
    Case("ProxyClass", nested(f"{INIT_CONTAINER}.env", [{}]), "tailscaleInitContainer.env[0].name: Required"),
    Case("ProxyClass", nested(f"{INIT_CONTAINER}.env", [{"name": "1a"}]), "tailscaleInitContainer.env[0].name"),
    Case("ProxyClass", nested(f"{RESOURCES}.limits", {"cpu": "much"}), "resources.limits"),
    Case("ProxyClass", nested(f"{RESOURCES}.limits", {"memory": "1KB"}), "resources.limits"),
    Case("ProxyClass", nested(f"{RESOURCES}.requests", {"cpu": "1 m"}), "resources.requests"),
    Case("ProxyClass", nested(f"{RESOURCES}.requests", {"cpu": 1.5}), "resources.requests"),
    Case("ProxyClass", nested(f"{RESOURCES}.claims", [{}]), "claims[0].name: Required"),
    Case("ProxyClass", nested(f"{RESOURCES}.claims", [{"name": "a"}, {"name": "a"}]), "claims[1]: Duplicate"),
    Case("ProxyClass", nested(f"{CONTAINER}.imagePullPolicy", "Sometimes"), "imagePullPolicy"),
    Case("ProxyClass", nested(f"{INIT_CONTAINER}.imagePullPolicy", "always"), "tailscaleInitContainer.imagePullPolicy"),
    Case("ProxyClass", nested("staticEndpoints.nodePort.ports", []), "staticEndpoints.nodePort.ports"),
    Case("ProxyClass", nested("staticEndpoints.nodePort.ports", [{"endPort": 1}]), "ports[0].port: Required"),
    Case("ProxyClass", {"staticEndpoints": {}}, "staticEndpoints.nodePort: Required"),
    Case("ProxyClass", nested("staticEndpoints.nodePort", {}), "staticEndpoints.nodePort.ports: Required"),
    Case("ProxyClass", {"tailscale": {"acceptRoutes": "yes"}}, "spec.tailscale.acceptRoutes"),
]
TEST = {"key": "zone", "operator": "In", "values": ["a"]}
TERM = {"matchExpressions": [TEST]}
NEAR = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, "namespaceSelector": {}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
EMBEDDED = [
    Case("ProxyClass", nested(f"{POD}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", [TERM, {}])),
    Case("ProxyClass", nested(f"{POD}.affinity.nodeAffinity.{PREFERRED}", [{"preference": TERM, "weight": 1}])),
    *(
        case
        for way in ("podAffinity", "podAntiAffinity")
        for case in (
            Case("ProxyClass", nested(f"{POD}.affinity.{way}.{REQUIRED}", [NEAR])),
            Case("ProxyClass", nested(f"{POD}.affinity.{way}.{PREFERRED}", [{"podAffinityTerm": NEAR, "weight": 1}])),
            Case("ProxyClass", nested(f"{POD}.affinity.{way}.{REQUIRED}", [{}]), "[0].topologyKey: Required"),
            Case(
                "ProxyClass", nested(f"{POD}.affinity.{way}.{PREFERRED}", [{"weight": 1}]), "podAffinityTerm: Required"
            ),
            Case(
                "ProxyClass",
                nested(f"{POD}.affinity.{way}.{PREFERRED}", [{"podAffinityTerm": NEAR}]),
                "weight: Required",
            ),
        )
    ),
    Case("ProxyClass", nested(f"{POD}.affinity.nodeAffinity.{REQUIRED}", {}), "nodeSelectorTerms: Required"),
    Case("ProxyClass", nested(f"{POD}.affinity.nodeAffinity.{PREFERRED}", [{"weight": 1}]), "preference: Required"),
    Case("ProxyClass", nested(f"{POD}.affinity.nodeAffinity.{PREFERRED}", [{"preference": TERM}]), "weight: Required"),
    *(
        Case(
            "ProxyClass",
            nested(
                f"{POD}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", [{"matchFields": [without(TEST, missing)]}]
            ),
            f"matchFields[0].{missing}: Required",
        )
        for missing in ("key", "operator")
    ),
    *(
        Case(
            "ProxyClass",
            nested(f"{POD}.topologySpreadConstraints", [without(SPREAD, missing)]),
            f"topologySpreadConstraints[0].{missing}: Required",
        )
        for missing in SPREAD
    ),
    Case("ProxyClass", nested(f"{POD}.topologySpreadConstraints", [{**SPREAD, "labelSelector": TERM}, SPREAD])),
    *(
        Case(
            "ProxyClass",
            nested(
                f"{POD}.topologySpreadConstraints",
                [{**SPREAD, "labelSelector": {"matchExpressions": [without(TEST, missing)]}}],
            ),
            f"labelSelector.matchExpressions[0].{missing}: Required",
        )
        for missing in ("key", "operator")
    ),
    Case("ProxyClass", nested(f"{POD}.tolerations", [{"key": "a", "tolerationSeconds": 2**31}, {}])),
    Case(
        "ProxyClass", nested(f"{POD}.tolerations", [{"tolerationSeconds": "60s"}]), "tolerations[0].tolerationSeconds"
    ),
    Case("ProxyClass", nested(f"{POD}.tolerations", [{"value": True}]), "tolerations[0].value"),
    *(
        case
        for place in (f"{POD}.securityContext", f"{CONTAINER}.securityContext")
        for profile in ("appArmorProfile", "seccompProfile")
        for case in (
            Case("ProxyClass", nested(f"{place}.{profile}", {"type": "RuntimeDefault"})),
            Case("ProxyClass", nested(f"{place}.{profile}", {"localhostProfile": "a"}), f"{profile}.type: Required"),
        )
    ),
    Case("ProxyClass", nested(f"{POD}.securityContext", {"sysctls": [{"name": "a"}]}), "sysctls[0].value: Required"),
    Case("ProxyClass", nested(f"{POD}.securityContext", {"sysctls": [{"value": "a"}]}), "sysctls[0].name: Required"),
    Case("ProxyClass", nested(f"{CONTAINER}.securityContext.capabilities", {"add": ["NET_ADMIN"], "drop": ["ALL"]})),
    Case("ProxyClass", nested(f"{CONTAINER}.securityContext.capabilities", {"add": "NET_ADMIN"}), "capabilities.add"),
    Case("ProxyClass", nested(f"{POD}.dnsConfig", {"searches": "example.org"}), "dnsConfig.searches"),
    Case("ProxyClass", nested(f"{POD}.imagePullSecrets", [{}, {"name": "pull"}])),
    Case("ProxyClass", nested(f"{POD}.imagePullSecrets", ["pull"]), "imagePullSecrets[0]"),
]
PROXYGROUPS = [
    Case("ProxyGroup", {"type": "egress"}),
    Case("ProxyGroup", {"type": "ingress", "replicas": 0, "tags": ["tag:k8s"], "hostnamePrefix": "in"}),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {"mode": "noauth", "hostname": "k"}}),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {}}),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {"mode": "auth", "hostname": "k" * 63}}),
    Case("ProxyGroup", {"type": "egress", "replicas": 2**31 - 1, "hostnamePrefix": "e" * 62}),
    Case("ProxyGroup", {"type": "egress", "proxyClass": "prod", "tailnet": "other"}),
    Case("ProxyGroup", {}, "spec.type: Required"),
    Case("ProxyGroup", None, "spec: Required"),
    Case("ProxyGroup", {"type": "both"}, "spec.type"),
    Case("ProxyGroup", {"type": "egress", "replicas": -1}, "spec.replicas"),
    Case("ProxyGroup", {"type": "egress", "replicas": 2**31}, "spec.replicas"),
    Case("ProxyGroup", {"type": "egress", "tags": ["k8s"]}, "spec.tags[0]"),
    Case("ProxyGroup", {"type": "egress", "hostnamePrefix": "In"}, "spec.hostnamePrefix"),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {"mode": "some"}}, "spec.kubeAPIServer.mode"),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {"hostname": "k."}}, "kubeAPIServer.hostname"),
    Case("ProxyGroup", {"type": "kube-apiserver", "kubeAPIServer": {"hostname": "k" * 64}}, "kubeAPIServer.hostname"),
]
POLICIES = [
    Case("ProxyGroupPolicy", {}),
    Case("ProxyGroupPolicy", {"ingress": ["a"], "egress": []}),
    Case("ProxyGroupPolicy", None, "spec: Required"),
    Case("ProxyGroupPolicy", {"ingress": "a"}, "spec.ingress"),
    Case("ProxyGroupPolicy", {"egress": [1]}, "spec.egress[0]"),
]
RECORDERS = [
    Case("Recorder", {}),
    Case("Recorder", {"enableUI": True, "tags": ["tag:rec"]}),
    Case("Recorder", {"replicas": 0}),
    Case("Recorder", {"replicas": None}),
    Case("Recorder", {"replicas": 1, "storage": {}}),
    Case("Recorder", {"replicas": 2, "storage": {"s3": {}}}),
    Case(
        "Recorder",
        {"storage": {"s3": {"bucket": "b", "endpoint": "s3.example.org", "credentials": {"secret": {"name": "keys"}}}}},
    ),
    Case("Recorder", {"statefulSet": {"labels": {"a": "any thing!"}}}),
    Case("Recorder", nested(f"{POD}.serviceAccount", {"name": "rec", "annotations": {"a": "b"}})),
    Case("Recorder", nested(f"{POD}.serviceAccount.name", f"a{'-' * 30}.{'-' * 30}b")),
    Case("Recorder", nested(f"{POD}.container", {"env": [{"name": "A"}], "imagePullPolicy": "Never"})),
    Case("Recorder", None, "spec: Required"),
    Case("Recorder", {"replicas": 2}, "can't share a local disk"),
    Case("Recorder", {"replicas": 2, "storage": {}}, "can't share a local disk"),
    Case("Recorder", {"replicas": -1}, "spec.replicas"),
    Case("Recorder", {"replicas": 2**31}, "spec.replicas"),
    Case("Recorder", {"tags": ["rec"]}, "spec.tags[0]"),
    Case("Recorder", nested(f"{POD}.serviceAccount", {"name": "Rec"}), "serviceAccount.name"),
    Case("Recorder", nested(f"{POD}.serviceAccount.name", "rec."), "serviceAccount.name"),
    Case("Recorder", nested(f"{POD}.serviceAccount.name", "a" * 64), "serviceAccount.name"),
    Case("Recorder", nested(f"{POD}.serviceAccount.name", "a" * 254), "may not be more than 253"),
    Case("Recorder", nested(f"{POD}.container", {"env": [{"value": "b"}]}), "container.env[0].name: Required"),
    Case("Recorder", nested(f"{POD}.container", {"env": [{"name": "1"}]}), "container.env[0].name"),
    Case("Recorder", nested(f"{POD}.container", {"imagePullPolicy": "No"}), "container.imagePullPolicy"),
]
TAILNETS = [
    Case("Tailnet", {"credentials": {"secretName": "other"}}),
    Case("Tailnet", {"credentials": {"secretName": "other"}, "loginUrl": "https://headscale.example.org"}),
    Case("Tailnet", {}, "spec.credentials: Required"),
    Case("Tailnet", {"credentials": {}}, "spec.credentials.secretName: Required"),
    Case("Tailnet", None, "spec: Required"),
    Case("Tailnet", {"credentials": {"secretName": 1}}, "spec.credentials.secretName"),
]
PEERRELAYS = [
    Case("PeerRelay", {}),
    Case("PeerRelay", {"replicas": 0, "tags": ["tag:relay"], "hostnamePrefix": "relay"}),
    Case("PeerRelay", {"replicas": 2, "aws": {"elasticIPs": IPS[:2]}}),
    Case("PeerRelay", {"replicas": 1, "aws": {"elasticIPs": IPS}}),
    Case("PeerRelay", {"aws": {"elasticIPs": IPS[:1]}}),
    Case("PeerRelay", {"replicas": 0, "aws": {"elasticIPs": IPS[:1]}}),
    Case("PeerRelay", {"aws": {"elasticIPs": [IPS[0], IPS[0]]}}),
    Case("PeerRelay", {"service": {"annotations": {"a": "b"}}}),
    Case("PeerRelay", None, "spec: Required"),
    Case("PeerRelay", {"replicas": 2, "aws": {"elasticIPs": IPS[:1]}}, "every replica needs an elastic IP"),
    Case("PeerRelay", {"aws": {}}, "spec.aws.elasticIPs: Required"),
    Case("PeerRelay", {"aws": {"elasticIPs": []}}, "spec.aws.elasticIPs"),
    Case("PeerRelay", {"aws": {"elasticIPs": [{"allocationID": "x", "subnetID": "subnet-0"}]}}, "allocationID"),
    Case("PeerRelay", {"aws": {"elasticIPs": [{"allocationID": "eipalloc-0"}]}}, "subnetID: Required"),
    Case("PeerRelay", {"aws": {"elasticIPs": [{"subnetID": "subnet-0"}]}}, "allocationID: Required"),
    Case("PeerRelay", {"aws": {"elasticIPs": [{"allocationID": "eipalloc-0", "subnetID": "subnet-"}]}}, "subnetID"),
    Case("PeerRelay", {"tags": ["relay"]}, "spec.tags[0]"),
    Case("PeerRelay", {"hostnamePrefix": "-"}, "spec.hostnamePrefix"),
    Case("PeerRelay", {"replicas": -1}, "spec.replicas"),
    Case("PeerRelay", {"replicas": 2**31}, "spec.replicas"),
]
ONLY_OURS = Case("DNSConfig", {"nameserver": {"pod": {"imagePullSecrets": [{"name": "pull"}, {}]}}})
"""What the Go operator's definition doesn't have."""

CASES = [
    *CONNECTORS, *DNSCONFIGS, *PROXYCLASSES, *EMBEDDED, *PROXYGROUPS, *POLICIES, *RECORDERS, *TAILNETS, *PEERRELAYS
]  # fmt: skip


class Change(NamedTuple):
    """A spec, the one that replaces it, and the part of the refusal as in `Case`."""

    kind: str
    before: Object
    after: Object
    refused: str = ""


class Status(NamedTuple):
    """A status that the operator writes, and the part of the refusal as in `Case`."""

    kind: str
    status: Object
    refused: str = ""


LEAST: dict[str, Object] = {
    "Connector": {"exitNode": True},
    "DNSConfig": {"nameserver": {}},
    "PeerRelay": {},
    "ProxyClass": {},
    "ProxyGroup": {"type": "egress"},
    "ProxyGroupPolicy": {},
    "Recorder": {},
    "Tailnet": {"credentials": {"secretName": "other"}},
}
"""The least that a spec must say."""


def moves(kind: str) -> list[Change]:
    """Return what can be done with the Tailnet that an object names, and what can't."""
    none, one = LEAST[kind], {**LEAST[kind], "tailnet": "one"}
    return [
        Change(kind, one, {**one, "tailnet": "two"}, "spec.tailnet: Invalid value"),
        Change(kind, one, {**one, "tags": ["tag:other"]}),
        Change(kind, none, one),
        Change(kind, one, none),
    ]


CHANGES = [
    *moves("Connector"),
    *moves("PeerRelay"),
    *moves("ProxyGroup"),
    *moves("Recorder"),
    Change("ProxyGroup", {"type": "egress"}, {"type": "ingress"}, "spec.type: Invalid value"),
    Change("ProxyGroup", {"type": "egress"}, {"type": "egress", "replicas": 3}),
    Change("Connector", {"exitNode": True}, CIDR),
    Change("Connector", {"exitNode": True}, {"exitNode": False}, "must be a subnet router"),
]

CONDITION = {
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "message": "",
    "observedGeneration": 1,
    "reason": "Made",
    "status": "True",
    "type": "ConnectorReady",
}
OTHER = {**CONDITION, "type": "example.org/Other"}
WRONG_CONDITIONS: list[tuple[str, Any, str]] = [
    ("lastTransitionTime", "yesterday", "date-time"),
    ("message", "a" * 32769, "may not be more than 32768"),
    ("observedGeneration", -1, "greater than or equal to 0"),
    ("observedGeneration", 2**63, "observedGeneration"),
    ("reason", "", "at least 1"),
    ("reason", "in words", "should match"),
    ("reason", "a" * 1025, "may not be more than 1024"),
    ("status", "true", "Unsupported value"),
    ("type", "-a", "should match"),
    ("type", "a" * 317, "may not be more than 316"),
]
"""A condition's field, a value of it that is refused, and the part of the refusal."""

CONDITIONS = [
    *(Status(kind, {"conditions": [CONDITION, OTHER]}) for kind in LEAST),
    *(Status(kind, {"conditions": [CONDITION, CONDITION]}, "status.conditions[1]: Duplicate") for kind in LEAST),
    Status("Connector", {"conditions": [{**CONDITION, "message": "a" * 32768, "observedGeneration": 0}]}),
    Status("Connector", {"conditions": [{**CONDITION, "reason": "a" * 1024, "status": "Unknown", "type": "a" * 316}]}),
    *(
        Status("Connector", {"conditions": [{**CONDITION, field: value}]}, refused)
        for field, value, refused in WRONG_CONDITIONS
    ),
    *(
        Status(
            "Connector",
            {"conditions": [without(CONDITION, missing)]},
            "" if missing == "observedGeneration" else f"status.conditions[0].{missing}: Required",
        )
        for missing in CONDITION
    ),
]
DEVICE = {"hostname": "one.tail1234.ts.net", "tailnetIPs": ["100.64.0.1"]}
ENDPOINT = {"address": "192.0.2.1", "port": 40000, "replica": 0}
STATUSES = [
    *CONDITIONS,
    Status("Connector", {"devices": [DEVICE, DEVICE], "isExitNode": True, "subnetRoutes": "", "hostname": "one"}),
    Status("Connector", {"isExitNode": "true"}, "status.isExitNode"),
    Status("DNSConfig", {"nameserver": {"ip": "192.0.2.53"}}),
    Status("DNSConfig", {"nameserver": "192.0.2.53"}, "status.nameserver"),
    Status("ProxyGroup", {"devices": [{**DEVICE, "staticEndpoints": ["192.0.2.1:30000"]}], "url": "https://a"}),
    *(
        case
        for kind in ("ProxyGroup", "Recorder")
        for case in (
            Status(kind, {"devices": [DEVICE, {**DEVICE, "hostname": "two"}]}),
            Status(kind, {"devices": [DEVICE, DEVICE]}, "status.devices[1]: Duplicate"),
            Status(kind, {"devices": [{"tailnetIPs": []}]}, "status.devices[0].hostname: Required"),
        )
    ),
    Status("PeerRelay", {"endpoints": [ENDPOINT, {**ENDPOINT, "replica": 1}, {**ENDPOINT, "address": "192.0.2.2"}]}),
    Status("PeerRelay", {"endpoints": [ENDPOINT, {**ENDPOINT, "port": 40001}]}, "status.endpoints[1]: Duplicate"),
    *(
        Status(
            "PeerRelay",
            {"endpoints": [without(ENDPOINT, missing)]},
            f"status.endpoints[0].{missing}: Required",
        )
        for missing in ENDPOINT
    ),
]
