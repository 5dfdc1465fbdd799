"""The operator's Deployment, and the settings of the operator in it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tsoperator.api.conditions import conditions_of
from tsoperator.api.names import DEFAULT_CONTROL_URL, DEFAULT_INGRESS_CLASS, LABEL_OPERATOR, OPERATOR
from tsoperator.api.objects import Key, Object, is_deleting, key_of
from tsoperator.check.findings import Finding, failed, ok

PRIVILEGED: Final = "privileged"
_UPDATED: Final = "NewReplicaSetAvailable"
_ENFORCE: Final = "pod-security.kubernetes.io/enforce"


class SecretKey(NamedTuple):
    """The name of a Secret, and a key in it."""

    secret: Key
    name: str


class WorkloadIdentity(NamedTuple):
    """The ID of an OAuth client that trusts this cluster, and the audience of the tokens with which we log in."""

    client_id: str
    audience: str


@dataclass(frozen=True, slots=True)
class Installed:
    """An operator that is installed in *namespace*."""

    namespace: str
    deployment: Object

    @property
    def name(self) -> str:
        """The name of the Deployment."""
        return key_of(self.deployment).name

    @property
    def replicas(self) -> int:
        """The wanted number of Pods of the Deployment."""
        count: int = self.deployment["spec"].get("replicas", 1)
        return count

    @property
    def is_being_updated(self) -> bool:
        """True if an update of the Deployment has begun, and has neither ended nor failed yet."""
        status, generation = self.deployment.get("status") or {}, self.deployment["metadata"].get("generation", 0)
        progress = next((each for each in status.get("conditions") or () if each["type"] == "Progressing"), None)
        seen: int = status.get("observedGeneration", 0)
        goes_on: bool = progress is not None and progress["status"] == "True" and progress.get("reason") != _UPDATED
        return goes_on or seen < generation

    @property
    def account(self) -> str:
        """The name of the operator's user at the API server."""
        name = self._pod.get("serviceAccountName") or "default"
        return f"system:serviceaccount:{self.namespace}:{name}"

    @property
    def service_account(self) -> str:
        """The name of the operator's ServiceAccount."""
        return self.account.rpartition(":")[2]

    @property
    def manages_cluster_dns(self) -> bool:
        """True if the operator is allowed to write into the configuration of the cluster's DNS."""
        return self._env.get("OPERATOR_MANAGE_CLUSTER_DNS") == "true"

    @property
    def makes_dnsconfig(self) -> bool:
        """True if the operator makes a DNSConfig where the cluster has none."""
        return self._env.get("OPERATOR_DNS_ENABLED") == "true"

    @property
    def cluster_dns_configmap(self) -> str:
        """The name that the settings give for the ConfigMap with CoreDNS's Corefile; empty if they give none."""
        return self._env.get("OPERATOR_CLUSTER_DNS_CONFIGMAP", "")

    @property
    def watched(self) -> list[str]:
        """The namespaces in which the operator watches users' objects, among them its own. Empty means all."""
        found = _listed(self._env.get("OPERATOR_WATCH_NAMESPACES", ""))
        return [*dict.fromkeys((self.namespace, *found))] if found else []

    @property
    def control_url(self) -> str:
        """The URL of the control server."""
        return self._env.get("OPERATOR_LOGIN_SERVER", "").removesuffix("/") or DEFAULT_CONTROL_URL

    @property
    def ingress_class(self) -> str:
        """The class of the Ingresses that the operator serves."""
        return self._env.get("OPERATOR_INGRESS_CLASS_NAME", DEFAULT_INGRESS_CLASS)

    @property
    def has_default_class(self) -> bool:
        """True if the operator has a default class for proxies whose parents name no class."""
        return bool(self._env.get("PROXY_DEFAULT_CLASS"))

    def secret_key(self, variable: str) -> SecretKey | None:
        """Return the key of the Secret that is mounted at the path in the environment *variable*.

        Return None if no Secret is mounted at that path.
        """
        path = self._env.get(variable, "")
        folder, _, file = path.rpartition("/")
        mounted = (each["name"] for each in self._container.get("volumeMounts") or () if each["mountPath"] == folder)
        volume = next(mounted, "")
        for each in self._pod.get("volumes") or ():
            if each["name"] == volume and (name := (each.get("secret") or {}).get("secretName")):
                return SecretKey(Key(self.namespace, name), file)
        return None

    @property
    def identity(self) -> WorkloadIdentity | None:
        """The operator's workload identity; None if it has none."""
        sources = [
            source.get("serviceAccountToken") or {}
            for volume in self._pod.get("volumes") or ()
            for source in (volume.get("projected") or {}).get("sources") or ()
        ]
        audience = next((each["audience"] for each in sources if each.get("audience")), "")
        client_id = self._env.get("CLIENT_ID", "")
        return WorkloadIdentity(client_id, audience) if client_id and audience else None

    @property
    def health_port(self) -> int:
        """The port of probes and metrics."""
        named = [each for each in self._container.get("ports") or () if each.get("name") == "health"]
        port: int = named[0]["containerPort"] if named else 9002
        return port

    @property
    def _pod(self) -> Object:
        spec: Object = self.deployment["spec"]["template"]["spec"]
        return spec

    @property
    def _container(self) -> Object:
        container: Object = self._pod["containers"][0]
        return container

    @property
    def _env(self) -> Mapping[str, str]:
        given = {each["name"]: each.get("value", "").strip() for each in self._container.get("env") or ()}
        return {name: value for name, value in given.items() if value}


def find_installed(namespace: str, deployments: Iterable[Object]) -> Installed | None:
    """Return the operator among the *deployments* of *namespace*; None if it isn't among them."""
    for each in deployments:
        template = each["spec"]["template"].get("metadata") or {}
        if (template.get("labels") or {}).get(LABEL_OPERATOR) == OPERATOR and not is_deleting(each):
            return Installed(namespace, each)
    return None


def not_installed(namespace: str) -> Finding:
    """Return the finding that there is no operator in *namespace*."""
    return failed(
        "operator",
        f"no Deployment in namespace {namespace} runs this operator",
        "give the namespace with --operator-namespace, or install the operator (docs/install.md); Tailscale's operator "
        "doesn't count",
    )


def no_pods(installed: Installed) -> Finding:
    """Return the finding that the operator has no Pods."""
    namespace, name = installed.namespace, installed.name
    if installed.replicas == 0:
        return failed(
            "operator",
            f"Deployment {namespace}/{name} is scaled to 0, so nobody looks after the cluster",
            f"`kubectl -n {namespace} scale deployment/{name} --replicas=2`",
        )
    conditions = conditions_of(installed.deployment)
    why = next((each.get("message", "") for each in conditions if each["type"] == "ReplicaFailure"), "")
    return failed(
        "operator",
        f"Deployment {namespace}/{name} has no Pods" + (f": {why}" if why else ""),
        f"see why with `kubectl -n {namespace} describe deployments,replicasets --show-events`",
    )


def findings_during_update(installed: Installed, findings: Iterable[Finding]) -> list[Finding]:
    """Return *findings* about the operator's Pods, adapted to an update of the operator.

    During an update, the cure of each finding advises the user to wait for the end of the update and to check again.
    One more finding says that the operator is being updated.
    """
    if not installed.is_being_updated:
        return [*findings]
    name = f"deployment/{installed.name}"
    wait = f"wait until `kubectl -n {installed.namespace} rollout status {name}` ends, and check again; if this stays, "
    told = [replace(each, cure=wait + each.cure) if each.cure else each for each in findings]
    return [ok("operator", f"Deployment {key_of(installed.deployment)} is being updated"), *told]


def check_pod_security(namespace: Object, statefulsets: Iterable[Object], has_default_class: bool) -> Finding:
    """Check whether Pod security lets proxies run in the operator's *namespace*.

    *statefulsets* are those of the existing proxies. Proxies without a class are privileged. If the namespace forbids
    privileged Pods, all proxies must have a class.
    """
    name, labels = namespace["metadata"]["name"], namespace["metadata"].get("labels") or {}
    level = labels.get(_ENFORCE, PRIVILEGED)
    if level == PRIVILEGED:
        return ok("pod-security", f"namespace {name} lets proxies be privileged")
    refused = sorted(key_of(each).name for each in statefulsets if _is_privileged(each))
    if has_default_class and not refused:
        return ok("pod-security", f"namespace {name} enforces Pod security {level!r}, and no proxy is privileged")
    concerned = f", as {', '.join(refused[:3])} {'are' if len(refused) > 1 else 'is'}" if refused else ""
    return failed(
        "pod-security",
        f"namespace {name} enforces Pod security {level!r}, which refuses Pods that are privileged{concerned}",
        f"`kubectl label namespace {name} --overwrite {_ENFORCE}={PRIVILEGED}`; or give the proxies less by a "
        "ProxyClass (docs/proxyclass.md)",
    )


def _is_privileged(statefulset: Object) -> bool:
    spec = statefulset["spec"]["template"]["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    contexts = [each.get("securityContext") or {} for each in containers]
    return any(each.get("privileged") or (each.get("capabilities") or {}).get("add") for each in contexts)


def _listed(text: str) -> list[str]:
    return [word for each in text.split(",") if (word := each.strip().strip("."))]
