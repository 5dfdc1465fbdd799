"""Decides what an egress Service needs (standalone-proxies.md 5)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tsoperator.api.conditions import condition, remove_condition, set_condition
from tsoperator.api.names import (
    ANNOTATION_EXPOSE,
    ANNOTATION_HOSTNAME,
    ANNOTATION_TAGS,
    ANNOTATION_TAILNET_FQDN,
    ANNOTATION_TAILNET_IP,
    ANNOTATION_TAILNET_TARGET_IP_DEPRECATED,
    CONDITION_PROXY_READY,
    FINALIZER,
    LOAD_BALANCER_CLASS,
    PARENT_SERVICE,
    PROXY_GROUP,
)
from tsoperator.api.objects import SERVICE, Key, Object, annotations, has_finalizer, is_deleting, key_of, uid
from tsoperator.api.rules import dns_label_error, fqdn_error, ip_error, is_true, split_tags, tag_error
from tsoperator.desired.children import Owner
from tsoperator.desired.plan import Note, Patch, Plan
from tsoperator.desired.proxy import Children, Proxy, plan_proxy, plan_removal, proxy_key
from tsoperator.desired.proxyclass import accepts_routes, class_problem, class_spec
from tsoperator.desired.statefulset import EgressByFQDN, EgressByIP, Target
from tsoperator.desired.tailscaled import ProxyConfig
from tsoperator.settings import Settings


@dataclass(frozen=True, slots=True)
class Observed:
    """What a Service's plan depends on besides the Service."""

    children: Children
    proxy_class: Object | None = None


def owner(key: Key) -> Owner:
    """Return the owner of the children of the Service named *key*."""
    return Owner(PARENT_SERVICE, key)


def is_egress(service: Object) -> bool:
    """Tell whether *service* is to become an egress proxy of its own, not one of a ProxyGroup."""
    asks = bool(_target_ip(service) or annotations(service).get(ANNOTATION_TAILNET_FQDN))
    return asks and PROXY_GROUP not in annotations(service) and not is_exposed(service)


def is_exposed(service: Object) -> bool:
    """Tell whether *service* asks to be reachable from the tailnet, which comes before egress."""
    spec = service["spec"]
    exposed = is_true(annotations(service).get(ANNOTATION_EXPOSE))
    balanced = spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") == LOAD_BALANCER_CLASS
    by_name = exposed and spec.get("type") == "ExternalName" and bool(spec.get("externalName"))
    return (bool(spec.get("clusterIP")) and (exposed or balanced)) or by_name


def is_leaving(service: Object) -> bool:
    """Tell whether what we made for *service* has to go."""
    return is_deleting(service) or not (is_egress(service) or is_exposed(service))


def violations(service: Object, zones: Sequence[str]) -> list[str]:
    """Return what is wrong with *service*, each as a sentence's part with the words to mend it (5.5)."""
    given = annotations(service)
    fqdn, ip, ip_annotation = given.get(ANNOTATION_TAILNET_FQDN, ""), _target_ip(service), _ip_annotation(service)
    found: list[str] = []
    if service["spec"].get("clusterIP") == "None":
        found.append("headless Services are not supported: use a Service of type ExternalName")
    if fqdn and ip:
        found.append(f"only one of {ip_annotation} and {ANNOTATION_TAILNET_FQDN} may be set: remove one of them")
    if fqdn and (error := fqdn_error(fqdn, zones)):
        found.append(f"invalid value of annotation {ANNOTATION_TAILNET_FQDN}: {error}")
    if ip and (error := ip_error(ip)):
        found.append(f"invalid value of annotation {ip_annotation}: {error}")
    if error := dns_label_error(hostname(service)):
        found.append(
            f"invalid value of annotation {ANNOTATION_HOSTNAME}: {error}"
            if ANNOTATION_HOSTNAME in given
            else f"the default hostname {error}: set annotation {ANNOTATION_HOSTNAME} to a shorter one"
        )
    if ANNOTATION_TAGS in given:
        found += [
            f"invalid value of annotation {ANNOTATION_TAGS}: {error}"
            for tag in split_tags(given[ANNOTATION_TAGS])
            if (error := tag_error(tag))
        ]
    return found


def hostname(service: Object) -> str:
    """Return the name that the proxy's device asks for."""
    key = key_of(service)
    return annotations(service).get(ANNOTATION_HOSTNAME, f"{key.namespace}-{key.name}")


def tags(service: Object, settings: Settings) -> Sequence[str]:
    """Return the tags of the proxy's device."""
    given = annotations(service).get(ANNOTATION_TAGS)
    return split_tags(given) if given else settings.proxy_tags


def proxy(service: Object, settings: Settings, proxy_class: Object | None = None) -> Proxy:
    """Return the proxy that a valid egress *service* should have, *proxy_class* the class that it names."""
    spec = class_spec(proxy_class)
    fqdn = annotations(service).get(ANNOTATION_TAILNET_FQDN, "").removesuffix(".")
    target: Target = EgressByFQDN(f"{fqdn}.") if fqdn else EgressByIP(_target_ip(service))
    return Proxy(
        owner=owner(key_of(service)),
        parent_uid=uid(service),
        target=target,
        config=ProxyConfig(hostname(service), settings.control_url, accept_routes=accepts_routes(spec)),
        tags=tags(service, settings),
        magic_dns_name=fqdn,
        proxy_class=spec,
    )


def refusal(service: Object, observed: Observed, settings: Settings) -> Plan | None:
    """Return the plan for a Service that can't be served as it is; None if it can. What runs stays as it is."""
    if is_exposed(service):
        return Plan()  # into the cluster: what another operator made for it stays
    if wrong := violations(service, settings.zones):
        message = f"unable to provision proxy resources: invalid Service: {', '.join(wrong)}"
        status = not_ready(service, "ProxyInvalid", message)
        return Plan(status=status, notes=[Note("Warning", "INVALIDSERVICE", message)])
    if problem := class_problem(service, observed.proxy_class, settings.proxy_class):
        return Plan(status=not_ready(service, problem.reason, problem.message))
    return None


def plan(service: Object, observed: Observed, settings: Settings, auth_key: str = "") -> Plan:
    """Return what *service*, which `refusal` has nothing against, needs."""
    wanted = proxy(service, settings, observed.proxy_class)
    made = plan_proxy(wanted, observed.children, settings, auth_key)
    name = proxy_key(wanted, observed.children, settings).name
    external_name = f"{name}.{settings.namespace}.svc.{settings.cluster_domain}"
    ready = condition(CONDITION_PROXY_READY, True, "ProxyCreated", "ProxyCreated")
    spec = service["spec"]
    rewrite = []
    if spec.get("externalName") != external_name or spec.get("type") != "ExternalName":
        body = {"spec": {"type": "ExternalName", "externalName": external_name, "selector": None}}
        rewrite.append(Patch(SERVICE, key_of(service), body))
    return replace(made, apply=[*made.apply, *rewrite], status=_with_condition(service, ready))


def plan_deletion(service: Object, observed: Observed) -> Plan:
    """Return the next step of taking away what was made for *service*."""
    if not has_finalizer(service, FINALIZER):
        return Plan(status=_without_condition(service))
    step = plan_removal(observed.children)
    return replace(step, status=_without_condition(service)) if step.release else step


def failed(service: Object, message: str) -> Plan:
    """Return the plan that says why nothing could be made for *service*; it is tried again."""
    return Plan(status=not_ready(service, "ProxyFailed", message))


def not_ready(service: Object, reason: str, message: str) -> Object:
    """Return the status that says why *service* has no working proxy."""
    return _with_condition(service, condition(CONDITION_PROXY_READY, False, reason, message))


def _target_ip(service: Object) -> str:
    return annotations(service).get(_ip_annotation(service), "")


def _ip_annotation(service: Object) -> str:
    """Return the annotation that counts: the deprecated one only where the other says nothing."""
    given = annotations(service)
    deprecated = given.get(ANNOTATION_TAILNET_TARGET_IP_DEPRECATED) and not given.get(ANNOTATION_TAILNET_IP)
    return ANNOTATION_TAILNET_TARGET_IP_DEPRECATED if deprecated else ANNOTATION_TAILNET_IP


def _with_condition(service: Object, wanted: Object) -> Object:
    status = service.get("status") or {}
    return {**status, "conditions": set_condition(status.get("conditions") or [], [wanted], now="")}


def _without_condition(service: Object) -> Object | None:
    status = service.get("status") or {}
    conditions = status.get("conditions") or []
    left = remove_condition(conditions, CONDITION_PROXY_READY)
    if is_deleting(service) or left == conditions:
        return None
    return {**status, "conditions": left}
