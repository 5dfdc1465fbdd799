"""Names that clusters, users and the proxy image rely on: labels, annotations, finalizers, keys of Secrets, and so on.

Objects with these names outlive every process, so we must not change any of the names
(docs/development/go-operator.md, docs/development/proxies.md).
"""

from typing import Final

GROUP: Final = "tailscale.com"
"""The API group of the operator's own kinds."""

# Labels on the objects that the operator makes. The first four together find the children of one parent.
LABEL_MANAGED: Final = "tailscale.com/managed"
LABEL_PARENT_TYPE: Final = "tailscale.com/parent-resource-type"
LABEL_PARENT_NAME: Final = "tailscale.com/parent-resource"
LABEL_PARENT_NAMESPACE: Final = "tailscale.com/parent-resource-ns"
LABEL_SERVICE_TYPE: Final = "tailscale.com/svc-type"
"""The label on the objects that a ProxyGroup's reconcilers make for a Service; its value is the type of the group."""
LABEL_APP: Final = "app"
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
LABEL_APP_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_APP_MANAGER: Final = "app.kubernetes.io/managed-by"
LABEL_APP_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_METRICS_TARGET: Final = "tailscale.com/metrics-target"
LABEL_PROXY_TYPE: Final = "ts_proxy_type"
LABEL_PROXY_PARENT_NAME: Final = "ts_proxy_parent_name"
LABEL_PROXY_PARENT_NAMESPACE: Final = "ts_proxy_parent_namespace"
LABEL_PROMETHEUS_JOB: Final = "ts_prom_job"
"""The label on metrics Services and ServiceMonitors with the name of the job for Prometheus.

Prometheus also copies `LABEL_PROXY_TYPE`, `LABEL_PROXY_PARENT_NAME` and `LABEL_PROXY_PARENT_NAMESPACE` to its metrics.
"""
LABEL_SERVICE_NAME: Final = "kubernetes.io/service-name"
"""The label on an EndpointSlice with the name of the Service that the EndpointSlice belongs to."""
LABEL_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label that Kubernetes puts on each namespace, with the name of the namespace."""
LABEL_SLICE_MANAGER: Final = "endpointslice.kubernetes.io/managed-by"
"""The label on an EndpointSlice with the name of the program that writes its endpoints."""
LABEL_SECRET_TYPE: Final = "tailscale.com/secret-type"  # noqa: S105 - a label, as those of Secrets below
"""The label on a Secret of a replica that has two Secrets. Its value is the Secret's purpose: config or state."""
LABEL_PEER_RELAY_REPLICA: Final = "tailscale.com/peer-relay-replica"
"""The label on the children of one replica of a PeerRelay, with the ordinal of the replica."""
LABEL_OPERATOR: Final = "tailscale.com/operator"
"""The label on the operator's own Pods.

No value of the chart can change it, and the Go operator's Pods don't have it.
"""

# Values of LABEL_MANAGED and LABEL_PARENT_TYPE.
MANAGED: Final = "true"
PARENT_SERVICE: Final = "svc"
PARENT_INGRESS: Final = "ingress"
PARENT_NAMESERVER: Final = "nameserver"
PARENT_CONNECTOR: Final = "connector"
PARENT_PROXYGROUP: Final = "proxygroup"
PARENT_PEERRELAY: Final = "peerrelay"
PARENT_OPERATOR: Final = "operator"
"""The type of the parent in the labels of the children that register or run the operator's own device.

The parent of these children is the Secret with the state of the device.
"""

# The children of a Recorder have other labels than the children above. The next two values are those of LABEL_APP_NAME
# and LABEL_APP_MANAGER on the children of a Recorder; LABEL_APP_INSTANCE names the Recorder.
PARENT_RECORDER: Final = "recorder"
MANAGER: Final = "tailscale-operator"

COMPONENT: Final = "tailscale-operator"
"""The name of the operator in its Events."""

LEASE_NAME: Final = "tailscale-operator"
"""The name of the Lease, in the operator's namespace, whose holder leads."""

# Values of LABEL_SECRET_TYPE.
SECRET_TYPE_CONFIG: Final = "config"  # noqa: S105
SECRET_TYPE_STATE: Final = "state"  # noqa: S105

# The value of LABEL_SLICE_MANAGER.
SLICE_MANAGER: Final = "tailscale.com"

# The value of LABEL_OPERATOR.
OPERATOR: Final = "tsoperator"

# The value of LABEL_SERVICE_TYPE.
SERVICE_TYPE_EGRESS: Final = "egress"

# Values of LABEL_PROXY_TYPE.
TYPE_EGRESS_SERVICE: Final = "egress_service"
TYPE_INGRESS_SERVICE: Final = "ingress_service"
TYPE_INGRESS_RESOURCE: Final = "ingress_resource"
TYPE_CONNECTOR: Final = "connector"
TYPE_PROXYGROUP: Final = "proxygroup"
TYPE_RECORDER: Final = "recorder"

# Keys of both labels and annotations. A parent names its class in the label or, without one, in the annotation. The
# group is an annotation on the parent, and a label on its children.
PROXY_CLASS: Final = "tailscale.com/proxy-class"
PROXY_GROUP: Final = "tailscale.com/proxy-group"

# Annotations that users set.
ANNOTATION_EXPOSE: Final = "tailscale.com/expose"
ANNOTATION_HOSTNAME: Final = "tailscale.com/hostname"
ANNOTATION_TAGS: Final = "tailscale.com/tags"
ANNOTATION_TAILNET_IP: Final = "tailscale.com/tailnet-ip"
ANNOTATION_TAILNET_TARGET_IP_DEPRECATED: Final = "tailscale.com/ts-tailnet-target-ip"
ANNOTATION_TAILNET_FQDN: Final = "tailscale.com/tailnet-fqdn"
ANNOTATION_FUNNEL: Final = "tailscale.com/funnel"
ANNOTATION_HTTP_ENDPOINT: Final = "tailscale.com/http-endpoint"
ANNOTATION_HTTP_REDIRECT: Final = "tailscale.com/http-redirect"
ANNOTATION_FORWARD_CLUSTER_TRAFFIC: Final = "tailscale.com/experimental-forward-cluster-traffic-via-ingress"
ANNOTATION_SHARE_ACCOUNT: Final = "tailscale.com/share-acme-account"
"""The annotation on a ProxyGroup of type ingress that says whether it shares its ACME account with other groups."""

ANNOTATION_CLUSTER_DNS: Final = "tailscale.com/cluster-dns"
"""The annotation on a Service or an Ingress that is "false" if the object is to have no name in the cluster's DNS."""

ANNOTATION_NAMESERVER: Final = "tailscale.com/nameserver"
"""The annotation on a DNSConfig that says which program the nameserver's image has."""

# Annotations that the operator sets: on proxy Services, on every child's metadata, and on Pod templates. A change on a
# Pod template replaces the Pods.
ANNOTATION_MAGIC_DNSNAME: Final = "tailscale.com/magic-dnsname"
ANNOTATION_DIGEST: Final = "tailscale.com/desired-digest"
ANNOTATION_LAST_CLUSTER_IP: Final = "tailscale.com/operator-last-set-cluster-ip"
ANNOTATION_LAST_CLUSTER_DNS_NAME: Final = "tailscale.com/operator-last-set-cluster-dns-name"
ANNOTATION_GIVEN: Final = "tailscale.com/from-proxy-class"
"""The annotation that lists the labels and annotations which a child has from its ProxyClass.

On the Service of a relay, it lists the annotations from the PeerRelay. The operator removes a label or
an annotation in the list once the ProxyClass or the PeerRelay no longer sets it.
"""
ANNOTATION_LAST_TAILNET_TARGET_IP: Final = "tailscale.com/operator-last-set-ts-tailnet-target-ip"
ANNOTATION_LAST_TAILNET_TARGET_FQDN: Final = "tailscale.com/operator-last-set-ts-tailnet-target-fqdn"
ANNOTATION_CONFIG_CHANGED: Final = "tailscale.com/config-changed-at"
"""The annotation on a Pod of a proxy, but not in its template, with the time of the latest touch.

The operator touches the Pod when it has changed a Secret or ConfigMap of the proxy.
"""
ANNOTATION_EGRESS_LEFT_OUT: Final = "tailscale.com/egress-left-out"
"""The annotation on an egress ConfigMap that is full, with the number of entries that it has no room for."""

# Annotations of the Lease: the Pod and the container that the leader runs in, and the leader's identity. The identity
# tells a standby which process wrote these annotations.
ANNOTATION_LEADER: Final = "tailscale.com/leader"
ANNOTATION_LEADER_POD: Final = "tailscale.com/leader-pod"
ANNOTATION_LEADER_UID: Final = "tailscale.com/leader-pod-uid"
ANNOTATION_LEADER_CONTAINER: Final = "tailscale.com/leader-container"
ANNOTATION_LEADER_GONE: Final = "tailscale.com/leader-gone-seconds"
"""The annotation on the Lease with the number of seconds after which a leader whose Pod is gone has certainly ended.

Another process counts these seconds only while the leader's Pod is gone and the Lease doesn't change.
"""

FIELD_MANAGER: Final = "tsoperator"
"""The field manager of our writes. The API server takes this name from the User-Agent of our requests."""

FINALIZER: Final = "tailscale.com/finalizer"
HA_INGRESS_FINALIZER: Final = "tailscale.com/ingress-pg-finalizer"
"""The finalizer on an Ingress that a ProxyGroup of type ingress exposes. The Go operator uses the same finalizer."""
HA_SERVICE_FINALIZER: Final = "tailscale.com/service-pg-finalizer"
"""The finalizer on a Service that a ProxyGroup of type ingress exposes. The Go operator uses the same finalizer."""
KUBE_APISERVER_FINALIZER: Final = "tailscale.com/kube-apiserver-finalizer"
"""The finalizer that holds a ProxyGroup of type kube-apiserver until nothing is left of its Tailscale Service."""
DNS_FINALIZER: Final = "tailscale.com/dns-records-reconciler"
"""The finalizer on proxy Services that have a DNS record."""

# The classes of load balancers and of Ingresses by which users leave a Service or an Ingress to the operator.
LOAD_BALANCER_CLASS: Final = "tailscale"
DEFAULT_INGRESS_CLASS: Final = "tailscale"
INGRESS_CONTROLLER: Final = "tailscale.com/ts-ingress"
"""The controller that our IngressClass names."""
ANNOTATION_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"
"""The annotation that named the class of an Ingress before Kubernetes had the field ``ingressClassName``."""
ANNOTATION_DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"

# The purposes of proxies. The environment variable TS_INTERNAL_APP passes one to the image.
APP_EGRESS_SERVICE: Final = "k8s-operator-egress-proxy"
APP_INGRESS_SERVICE: Final = "k8s-operator-ingress-proxy"
APP_INGRESS: Final = "k8s-operator-ingress-resource"
APP_CONNECTOR: Final = "k8s-operator-connector-resource"
APP_PROXYGROUP_EGRESS: Final = "k8s-operator-proxygroup-egress"
APP_PROXYGROUP_INGRESS: Final = "k8s-operator-proxygroup-ingress"
APP_PROXYGROUP_KUBE_APISERVER: Final = "k8s-operator-proxygroup-kube-apiserver"
APP_APISERVER_PROXY: Final = "k8s-operator-proxy"

# Keys of a proxy's Secret, for values that the proxy reports, and for values that the operator gives it.
SECRET_CURRENT_PROFILE: Final = "_current-profile"  # noqa: S105 - a key's name, as those below
SECRET_DEVICE_ID: Final = "device_id"  # noqa: S105
SECRET_DEVICE_FQDN: Final = "device_fqdn"  # noqa: S105
SECRET_DEVICE_IPS: Final = "device_ips"  # noqa: S105
SECRET_POD_UID: Final = "pod_uid"  # noqa: S105
SECRET_CAPABILITY_VERSION: Final = "tailscale_capver"  # noqa: S105
SECRET_HTTPS_ENDPOINT: Final = "https_endpoint"  # noqa: S105
SECRET_REISSUE: Final = "reissue_authkey"  # noqa: S105
"""The key that exists in a Secret while the proxy can't log in and asks for another auth key.

Its value is the present auth key, or empty.
"""
NO_HTTPS: Final = "no-https"
"""The value of SECRET_HTTPS_ENDPOINT for a proxy that serves no HTTPS."""
SERVE_CONFIG_KEY: Final = "serve-config"
SERVE_STATE_PREFIX: Final = "_serve_"
"""The prefix of the keys under which tailscaled stores the latest serve config that it got."""
ACME_ACCOUNT_KEY: Final = "acme-account.key.pem"
"""The key under which tailscaled stores its account with the certificate authority. It makes the account on its own."""
CERT_DOMAIN: Final = "${TS_CERT_DOMAIN}"
"""A placeholder in a serve config. The proxy image replaces it by the device's own name."""
CONFIG_KEY: Final = "cap-107.hujson"
CONFIG_KEY_WITHOUT_APP_CONNECTOR: Final = "cap-95.hujson"
"""The key of a proxy's config for images that don't know the field ``AppConnector``."""

# Names that the proxies of a ProxyGroup and the operator use (docs/development/groups.md).
GROUP_CONFIG_KEY: Final = "cap-106.hujson"
"""The key of the config in a config Secret of a ProxyGroup."""
K8S_PROXY_CONFIG_KEY: Final = "config.hujson"
"""The key of the config in a config Secret of a ProxyGroup of type kube-apiserver."""
CONFIG_SUFFIX: Final = "-config"
"""The end of the config Secret's name, if a replica has two Secrets. The state Secret has the name of the Pod."""
DEVICE_SUFFIX: Final = "-device"
"""The end of the name of the StatefulSet that registers the operator's own device, after the name of its Secret."""
AUTH_KEY_FILE: Final = "authkey"
"""The key of a Recorder's auth Secret, which has nothing but the auth key of a replica."""
AUTH_INFIX: Final = "-auth"
"""The part of the name of a Recorder's auth Secret that comes before the ordinal."""
EGRESS_SERVICES: Final = "egress-services"
"""The key of the egress ConfigMap with the entries for the proxies.

In a state Secret, it is the key under which a proxy reports the Services that it forwards.
"""
INGRESS_RULES: Final = "ingress-config.json"
"""The key of the ingress ConfigMap with the rules for the proxies.

In a state Secret, it is the key under which a proxy reports the rules that it has put into effect.
"""
INGRESS_SERVE_CONFIG: Final = "serve-config.json"
"""The key of the ingress ConfigMap with the serve config of those Tailscale Services whose TLS ends at the proxies."""
SECRET_TYPE_CERTS: Final = "certs"  # noqa: S105
"""The value of `LABEL_SECRET_TYPE` on the Secret with the certificate of a Tailscale Service."""
LABEL_DOMAIN: Final = "tailscale.com/domain"
"""The label on the Secret, Role and RoleBinding of a certificate, with the domain; a long domain is cut."""
EGRESS_PINGS: Final = "hep-pings"
"""The key of the egress ConfigMap with the number of health checks that a proxy makes in one round for each Service.

A proxy that is about to end repeats such rounds until only other proxies answer: then it gets no new connections.
"""
EGRESS_GATE: Final = "tailscale.com/egress-services"
"""The readiness gate of an egress Pod. The operator opens it once each Service of the group leads to the Pod."""
HEALTH_PORT: Final = 9002
"""The port at which a proxy answers health checks."""
HEALTH_PORT_NAME: Final = "tailscale-health-check"
"""The name that an egress Service gives to its port for `HEALTH_PORT`."""

ACCOUNTS: Final = "tailscale-acme-accounts"
"""The name of the Secret with the ACME accounts that ProxyGroups share, one for each tailnet."""
ACCOUNTS_FINALIZER: Final = "tailscale.com/acme-account-protection"
"""The finalizer that keeps the shared ACME accounts, because certificate authorities limit new accounts."""
ACCOUNTS_CAPABILITY_VERSION: Final = 143
"""The least capability version of an image that can share an ACME account."""

# The settings of the relays of a PeerRelay (docs/development/proxies.md).
RELAY_CONFIG_KEY: Final = "cap-142.hujson"
"""The key of the config in a config Secret of a PeerRelay.

Older images don't know the fields of this config, and refuse it.
"""
RELAY_CAPABILITY_VERSION: Final = 142
"""The least capability version of an image that can be a relay."""
RELAY_PORT: Final = 41641
"""The UDP port at which a relay listens."""

# The name of the nameserver's objects. tsnameserver.records has the names of its records.
NAMESERVER: Final = "nameserver"

# Condition types. tsoperator.status.conditions reads all of them. Their order is its order: of the conditions of one
# object, causes come before effects.
CONDITION_PROXY_READY: Final = "TailscaleProxyReady"
CONDITION_NAMESERVER_READY: Final = "NameserverReady"
CONDITION_CLUSTER_DNS_CONFIGURED: Final = "ClusterDNSConfigured"
CONDITION_CLUSTER_DNS_READY: Final = "ClusterDNSReady"
CONDITION_CONNECTOR_READY: Final = "ConnectorReady"
CONDITION_PROXYCLASS_READY: Final = "ProxyClassReady"
CONDITION_PROXYGROUP_READY: Final = "ProxyGroupReady"
CONDITION_PROXYGROUP_AVAILABLE: Final = "ProxyGroupAvailable"
CONDITION_KUBE_APISERVER_VALID: Final = "KubeAPIServerProxyValid"
CONDITION_KUBE_APISERVER_CONFIGURED: Final = "KubeAPIServerProxyConfigured"
"""A condition that only a ProxyGroup of type kube-apiserver has, like `CONDITION_KUBE_APISERVER_VALID`."""
CONDITION_EGRESS_VALID: Final = "TailscaleEgressSvcValid"
CONDITION_EGRESS_CONFIGURED: Final = "TailscaleEgressSvcConfigured"
CONDITION_EGRESS_READY: Final = "TailscaleEgressSvcReady"
CONDITION_INGRESS_VALID: Final = "TailscaleIngressSvcValid"
CONDITION_INGRESS_CONFIGURED: Final = "TailscaleIngressSvcConfigured"
"""A condition of a Service that a ProxyGroup of type ingress exposes, like `CONDITION_INGRESS_VALID`."""
CONDITION_PROXYGROUPPOLICY_READY: Final = "ProxyGroupPolicyReady"
CONDITION_RECORDER_READY: Final = "RecorderReady"
CONDITION_TAILNET_READY: Final = "TailnetReady"
CONDITION_PEERRELAY_READY: Final = "PeerRelayReady"

# The admission policies of a namespace, and their bindings, have these prefixes before the name of the namespace.
ADMISSION_INGRESS: Final = "ts-ingress-"
ADMISSION_EGRESS: Final = "ts-egress-"

PROXIES_SERVICE_ACCOUNT: Final = "proxies"
AUTH_PROXY_SERVICE_ACCOUNT: Final = "kube-apiserver-auth-proxy"
"""The chart's ServiceAccount for those API server proxies that are allowed to impersonate users."""
PROXY_CONTAINER: Final = "tailscale"
RELAY_CONTAINER: Final = "tailscaled"
SYSCTL_CONTAINER: Final = "sysctler"
DEFAULT_CONTROL_URL: Final = "https://controlplane.tailscale.com"
