"""Makes the plan for a ProxyGroup: decides which children, status and Events it should have.

docs/development/groups.md describes the proxies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tsoperator.api.conditions import conditions_of
from tsoperator.api.images import image_name
from tsoperator.api.names import (
    ACCOUNTS,
    AUTH_PROXY_SERVICE_ACCOUNT,
    CONDITION_PROXYGROUP_READY,
    CONFIG_SUFFIX,
    FINALIZER,
    K8S_PROXY_CONFIG_KEY,
    KUBE_APISERVER_FINALIZER,
)
from tsoperator.api.objects import (
    CONFIGMAP,
    POD,
    PROXYGROUP,
    SERVICEACCOUNT,
    Key,
    Object,
    has_finalizer,
    is_deleting,
    key_of,
    uid,
)
from tsoperator.api.policy import UNSUPPORTED
from tsoperator.api.v1alpha1.proxyclass import ProxyClassSpec
from tsoperator.group.apihosting import APIHosting, APIOffer, api_obstacle, api_offers
from tsoperator.group.claims import account_of, api_proxy_mode
from tsoperator.group.exposing import Offer
from tsoperator.group.grouptype import GroupType, Work
from tsoperator.group.hosted import Hosting
from tsoperator.group.hostnotes import APPROVAL_PATIENCE, host_notes
from tsoperator.proxy.account import account
from tsoperator.proxy.classref import accepts_routes, class_called
from tsoperator.proxy.devices import OWN_TAILNET, TailnetView, untried_message
from tsoperator.proxy.findings import Effect, with_findings
from tsoperator.proxy.login import NO_KEYS, Keys
from tsoperator.proxy.proxy import Children, Proxy
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import lacks_api_config
from tsoperator.proxy.tailscaled import APIServing, ProxyConfig
from tsoperator.proxy.withdrawal import withdrawal
from tsoperator.proxy.workload import (
    Workload,
    awaited_pods,
    holds_nothing,
    plan_removal,
    plan_workload,
    proxy_devices,
    proxy_problem,
    removal_message,
    unwanted,
)
from tsoperator.reconcilers.proxygroup.accounts import account_reports, account_steps, image_notes
from tsoperator.reconcilers.proxygroup.ask import Ask
from tsoperator.reconcilers.proxygroup.children import rules
from tsoperator.reconcilers.proxygroup.nodeports import with_static_endpoints
from tsoperator.reconcilers.proxygroup.notices import with_notices
from tsoperator.reconcilers.proxygroup.statefulset import group_statefulset, moves_health_port
from tsoperator.reconcilers.proxygroup.status import CREATING, FAILED, FREED, INVALID, reached, status
from tsoperator.runtime.ownership import in_the_way, is_anothers
from tsoperator.runtime.plan import Child, Deletion, Note, Plan, Refusal, Step, earliest
from tsoperator.runtime.success import with_success
from tsoperator.settings import Settings

NO_TAILNET: Final = "ProxyGroupTailnetUnavailable"
TERMINATING: Final = "ProxyGroupTerminating"
DEVICE_REASONS: Final = {Effect.PENDING: CREATING, Effect.FAILED: FAILED}
"""The reasons of a ProxyGroup's condition, by the effect of a finding about a device."""

_PROXY_IMAGE: Final = "tailscale"
_API_IMAGE: Final = "k8s-proxy"
_NO_DRAIN: Final = Note(
    "Warning",
    "NoGracefulShutdown",
    "its ProxyClass sets TS_LOCAL_ADDR_PORT, so a proxy that is about to stop can't wait until its connections are led "
    "elsewhere: leave this variable out of the class, and Pods come and go without a gap",
)
_NO_ACCOUNT: Final = (
    f"the ServiceAccount {AUTH_PROXY_SERVICE_ACCOUNT} doesn't exist, and its Pods need it to impersonate users: set "
    'apiServerProxyConfig.allowImpersonation of the chart to "true", or spec.kubeAPIServer.mode to noauth'
)
_LOOK_AGAIN: Final = 30.0  # s until the operator looks again whether something has ended, if no watch event comes
_END: Final = 30  # s that the Pods of a group have to end when the group is removed


@dataclass(frozen=True, slots=True)
class Observed:
    """The facts on which a ProxyGroup's plan depends, besides the ProxyGroup itself.

    The Secrets among its *children* are in the order of their ordinals, and a state Secret comes before the config
    Secret of the same replica. *named* are all objects that have the name of a child, whoever made them. *services* are
    the ClusterIP Services of the egress Services that name the group, and *offer* has the objects that an ingress group
    should serve. *node_ports* are all Services with node ports, and all Services of the group; these and *nodes* are
    empty unless the class has static endpoints. *account* is the Secret with the ACME accounts that groups share.

    *api* are the facts about a group of type kube-apiserver. The Secrets in *misnamed* have the labels of a replica of
    such a group, but not the name of one. The group *lacks_account* if its Pods are to run under the ServiceAccount of
    the chart, and this ServiceAccount doesn't exist.
    """

    children: Children
    named: Sequence[Object] = ()
    configmap: Object | None = None
    services: Sequence[Object] = ()
    proxy_class: Object | None = None
    tailnet: TailnetView = OWN_TAILNET
    node_ports: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    offer: Offer = field(default_factory=Offer)
    account: Object | None = None
    api: APIHosting | None = None
    misnamed: Sequence[Object] = ()
    lacks_account: bool = False

    @property
    def work(self) -> Work:
        """The objects that the group serves, as its type needs them."""
        return Work(self.services, self.offer)


def wanted(ask: Ask, observed: Observed, settings: Settings) -> Proxy | Plan:
    """Return the proxies that a ProxyGroup should have, or a plan if there should be none.

    There is a plan if the group is being deleted, or if its proxies can't be made. When proxies can't be made,
    running ones stay as they are.
    """
    if is_deleting(ask.group):
        return plan_deletion(ask, observed)
    found = _found(ask, observed, settings)
    return _refused(ask, observed, settings, found) if isinstance(found, Refusal) else found


def _found(ask: Ask, observed: Observed, settings: Settings) -> Proxy | Refusal | Plan:
    """Return the proxies that a ProxyGroup should have, or why it can't have them.

    Return a plan while the necessary facts aren't known yet.
    """
    if ask.unreadable:
        return Refusal(f"this ProxyGroup is invalid: {ask.unreadable}", INVALID)
    if observed.tailnet.pending:
        return Plan(steps=_kept(ask, observed, settings), error=observed.tailnet.pending)
    if refusal := observed.tailnet.refusal:
        return Refusal(refusal.message, NO_TAILNET)
    chosen = class_called(ask.class_name, observed.proxy_class, ask.without_class)
    if isinstance(chosen, Refusal):  # a group that waits for its class is being created
        waits = Plan(steps=_kept(ask, observed, settings), whole=False)
        return waits if chosen.is_passing else Refusal(chosen.message, CREATING)
    if wrong := [*ask.wrong, *([_NO_ACCOUNT] if observed.lacks_account else ()), *_class_violations(chosen, ask.type)]:
        return Refusal(f"this ProxyGroup is invalid: {'; '.join(wrong)}", INVALID)
    proxy = _proxy(ask, chosen, observed, settings)
    if stranger := next((each for each in observed.named if is_anothers(each, proxy.owner)), None):
        return Refusal(in_the_way(stranger), requeue_after=FREED)
    return with_static_endpoints(proxy, observed.children, observed.node_ports, observed.nodes)


def _class_violations(proxy_class: ProxyClassSpec | None, type_: GroupType) -> list[str]:
    """Return what is wrong with a ProxyClass for a group of *type_*; each violation says how to fix it."""
    found = []
    container = proxy_class.tailscale_container if proxy_class else None
    if (
        container
        and container.image
        and image_name(container.image) == (_PROXY_IMAGE if type_.offers_api else _API_IMAGE)
    ):
        found.append(
            f"its ProxyClass has the image {container.image}, which can't {type_.work}: leave "
            "tailscaleContainer.image out of the class, or name another class"
        )
    pod = proxy_class.stateful_set.pod if proxy_class and proxy_class.stateful_set else None
    if type_.offers_api and pod and pod.tailscale_init_container:
        found.append(
            "its ProxyClass has a tailscaleInitContainer, and its Pods have no init container: leave it out of the "
            "class, or name another class"
        )
    return found


def plan(
    ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal = NO_KEYS
) -> Plan:
    """Return the plan for a ProxyGroup.

    *wanted* is the result of the function `wanted`, and *keys* are the auth keys of the replicas.
    """
    return with_notices(_planned(ask, wanted, observed, settings, keys), ask)


def _planned(ask: Ask, wanted: Proxy | Plan, observed: Observed, settings: Settings, keys: Keys | Refusal) -> Plan:
    if isinstance(wanted, Plan):
        return wanted
    if isinstance(keys, Refusal):
        return _refused(ask, observed, settings, keys)
    devices = proxy_devices(wanted, observed.children, observed.tailnet, settings)
    problem = (
        proxy_problem(wanted, observed.children, keys)
        or _misnamed_problem(observed.misnamed)
        or _emptied_problem(_emptied(ask, observed.children))
    )
    complete = replace(
        plan_workload(wanted, _workload(ask, wanted, observed, settings), observed.children, keys, devices),
        status=status(ask.group, observed.children, Refusal(problem, CREATING) if problem else None, observed.api),
    )
    if observed.api is not None:
        complete = _with_api(complete, ask, observed.api, observed.children, settings)
    if shares_account := ask.type.shares_account(ask.group, settings):
        complete = replace(complete, reports=account_reports(observed.account))
    told = image_notes(_states(observed.children)) if shares_account else []
    complete = replace(
        complete,
        notes=[*complete.notes, *told, *_room_notes(observed.offer)],
        error=complete.error or observed.offer.pending,
    )
    found = with_findings(complete, devices.findings, condition=CONDITION_PROXYGROUP_READY, reasons=DEVICE_REASONS)
    words = reached(observed.children, observed.api)
    return with_success(found, conditions_of(ask.group), CONDITION_PROXYGROUP_READY, words)


def _misnamed_problem(misnamed: Sequence[Object]) -> str:
    """Return a message about a Secret with the labels of a replica, but another name; empty if there is none."""
    if not misnamed:
        return ""
    return (
        f"Secret {key_of(misnamed[0])} has the labels of a replica, but not the name of one, so it is left alone: take "
        "the labels off it, or delete it"
    )


def _emptied(ask: Ask, children: Children) -> list[str]:
    """Return the names of the config Secrets that lack a config; none unless the group offers the Kubernetes API."""
    configs = [each for each in children.secrets if key_of(each).name.endswith(CONFIG_SUFFIX)]
    return [key_of(each).name for each in configs if lacks_api_config(each)] if ask.type.offers_api else []


def _emptied_problem(emptied: Sequence[str]) -> str:
    """Return a message about a Secret whose config somebody has removed; empty if there is no such Secret."""
    why = f"has no {K8S_PROXY_CONFIG_KEY}, so it is left alone: delete it, and it is made anew"
    return f"Secret {emptied[0]} {why}" if emptied else ""


def _with_api(plan: Plan, ask: Ask, api: APIHosting, children: Children, settings: Settings) -> Plan:
    """Return *plan*, for a group that offers the Kubernetes API, with the parts about its Tailscale Service.

    A plan can put only one finalizer on the group, and such a group needs two. When the first one is there, the next
    plan puts on the other one.
    """
    obstacle, waited = api_obstacle(api), api.waited
    hosting = Hosting(api.claim, ask.group, replace(api.view, hosts=api.candidates), states=_states(children))
    return replace(
        plan,
        hold=KUBE_APISERVER_FINALIZER if has_finalizer(ask.group, FINALIZER) else FINALIZER,
        notes=[
            *plan.notes,
            *([_obstacle_note(obstacle)] if obstacle else ()),
            *host_notes(hosting, waited, settings.proxy_tags),
        ],
        requeue_after=earliest(
            plan.requeue_after,
            APPROVAL_PATIENCE - waited if waited is not None and waited < APPROVAL_PATIENCE else None,
            api.pause,
        ),
        error=plan.error or api.view.pending or api.unread,
    )


def _obstacle_note(refusal: Refusal) -> Note:
    """Return the Event about an obstacle to offering the Kubernetes API.

    If the control server lacks a needed feature, the Event is written only once.
    """
    return replace(refusal.note("TailscaleServiceFailed"), once=refusal.reason == UNSUPPORTED)


def _states(children: Children) -> list[Object]:
    """Return the slim state Secrets among *children*."""
    return [each for each in children.secrets if not key_of(each).name.endswith(CONFIG_SUFFIX)]


def _room_notes(offer: Offer) -> list[Note]:
    """Return the Event that names objects which the group doesn't serve because its ConfigMap is full."""
    if not offer.left_out:
        return []
    shown = " and ".join(map(str, offer.left_out[:3]))
    more = f" and {len(offer.left_out) - 3} more" if len(offer.left_out) > 3 else ""
    message = f"its ConfigMap has no room for {shown}{more}: let another ProxyGroup serve some of its objects"
    return [Note("Warning", "ConfigMapFull", message)]


def plan_deletion(ask: Ask, observed: Observed) -> Plan:
    """Return the plan with the next step of removing a group's children; the garbage collector removes the rest.

    The operator deletes the Pods before the StatefulSet, because only the first deletion of a Pod can shorten its time
    to end. The Pods need little time, as no Service leads to the group any longer. Without this limit, a Pod whose
    program hangs when it is stopped would hold up the removal.
    """
    if holds_nothing(ask.group, observed.children):
        return _plan_end(ask.group, observed)
    step = plan_removal(ask.owner, observed.children, observed.tailnet.name)
    if not step.release:
        pods = awaited_pods(observed.children)
        ending = [Deletion(POD, pod, grace=_END) for pod in pods if not is_deleting(pod)]
        waits = status(ask.group, observed.children, Refusal(removal_message(pods), TERMINATING))
        return replace(step, steps=[*ending, *step.steps], status=waits)
    if not (untried := untried_message(step, observed.tailnet)):
        return step
    told = _refusal_plan(ask, observed, Refusal(untried, NO_TAILNET))
    return replace(step, status=told.status, notes=[*step.notes, *told.notes])


def _plan_end(group: Object, observed: Observed) -> Plan:
    """Return the plan for a *group* that is being deleted, and whose proxies are gone.

    A group that offers the Kubernetes API stays until its Tailscale Service is completely removed.
    """
    if observed.api is None or not has_finalizer(group, KUBE_APISERVER_FINALIZER):
        return Plan()
    left = observed.api.left
    if left is None:
        return Plan(release=KUBE_APISERVER_FINALIZER)
    told = [] if left.is_passing else [Note("Warning", "DeletionBlocked", left.message)]
    waits = status(group, observed.children, Refusal(f"it is being removed: {left.message}", TERMINATING))
    return Plan(status=waits, notes=told, requeue_after=_LOOK_AGAIN)


def failed(ask: Ask, observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that tells the user of a ProxyGroup why a step failed. The operator tries again."""
    if is_deleting(ask.group) and observed.tailnet.refusal and not refusal.reason:
        refusal = replace(refusal, reason=NO_TAILNET)
    return _refusal_plan(ask, observed, refusal)


def _api_serving(ask: Ask, chosen: ProxyClassSpec | None, settings: Settings) -> APIServing:
    """Return the configuration for offering the Kubernetes API that all proxies of a group have in common."""
    return APIServing(
        api_proxy_mode(ask.group),
        "debug" if settings.log_level == "DEBUG" else "info",
        metrics=chosen.metrics.enable if chosen and chosen.metrics else None,
        accept_routes=accepts_routes(chosen) if chosen and chosen.tailscale else None,
    )


def _proxy(ask: Ask, chosen: ProxyClassSpec | None, observed: Observed, settings: Settings) -> Proxy:
    name = ask.key.name
    offers: Mapping[int, APIOffer] = api_offers(observed.api) if observed.api else {}
    advertised = {ordinal: each.advertised for ordinal, each in offers.items()} or observed.offer.advertised
    return Proxy(
        owner=ask.owner,
        parent_uid=uid(ask.group),
        key=Key(settings.namespace, name),
        pod=ask.type.pod(ask.group, settings),
        config=ProxyConfig(
            hostname=name,
            server_url=observed.tailnet.login_url,
            accept_routes=accepts_routes(chosen),
            in_group=True,
            api=_api_serving(ask, chosen, settings) if ask.type.offers_api else None,
        ),
        tags=ask.tags,
        tailnet=observed.tailnet.name,
        replica_count=ask.replicas,
        hostname_prefix=ask.hostname_prefix,
        proxy_class=chosen,
        notes=[_NO_DRAIN] if ask.type.drains and moves_health_port(chosen) else [],
        config_suffix=CONFIG_SUFFIX,
        advertised=[advertised.get(ordinal, ()) for ordinal in range(ask.replicas)],
        served=[offers[ordinal].served if ordinal in offers else "" for ordinal in range(ask.replicas)],
        controller=PROXYGROUP,
        account=account_of(ask.group),
        left_alone=frozenset(int(each.split("-")[-2]) for each in _emptied(ask, observed.children)),
    )


def _workload(ask: Ask, proxy: Proxy, observed: Observed, settings: Settings) -> Workload:
    """Return the children of a group, in the order in which they are needed.

    An existing ConfigMap comes first, so that Services are served even if the API server refuses another child. In a
    new group the ServiceAccount comes first: if somebody else has its name, nothing else is made.
    """
    children, type_ = observed.children, ask.type
    shared = [ACCOUNTS] if type_.shares_account(ask.group, settings) else []
    ordinals = {ordinal for each in children.secrets if (ordinal := proxy.ordinal_of(each)) is not None}
    made = account(proxy, rules(proxy.key.name, ordinals | {*range(proxy.replica_count)}, shared), proxy.account)
    made = [each for each in made if ask.has_account or each["kind"] != SERVICEACCOUNT.kind]
    empty = proxy.child(CONFIGMAP, type_.config_name(proxy.key.name))
    config = type_.configmap_steps(
        empty, observed.configmap, observed.work, proxy.replica_count, settings.cluster_domain
    )
    before, after = ((), config) if observed.configmap is None else (config, ())
    return Workload(
        [
            *before,
            *map(Child, proxy.services),
            *map(Child, made),
            *after,
            *(account_steps(observed.account, settings.namespace) if shared else ()),
        ],
        group_statefulset(type_, proxy, settings, children),
        unwanted(children.services, proxy.services),
    )


def _refused(ask: Ask, observed: Observed, settings: Settings, refusal: Refusal) -> Plan:
    """Return the plan that reports *refusal* on a group.

    The plan also updates the group's ConfigMap, so that running proxies serve the Services in their present state.
    """
    return replace(_refusal_plan(ask, observed, refusal), steps=_kept(ask, observed, settings))


def _kept(ask: Ask, observed: Observed, settings: Settings) -> Sequence[Step]:
    """Return the steps that update the ConfigMap of a group whose proxies can't be made or changed.

    With this ConfigMap, running proxies serve the Services in their present state. In a group of type ingress, the
    steps also make the proxies cease to advertise the Tailscale Services that they should no longer serve.
    """
    live = observed.configmap
    if live is None or is_anothers(live, ask.owner):
        return []
    content = ask.type.configmap_steps(live, live, observed.work, None, settings.cluster_domain)
    return [*content, *(_withdrawals(observed) if ask.type.exposes else ())]


def _withdrawals(observed: Observed) -> Iterator[Step]:
    """Yield the steps that take Tailscale Services out of the configs of proxies that should not advertise them."""
    secrets = {key_of(each): each for each in observed.children.secrets}
    for key, state in secrets.items():
        config = secrets.get(Key(key.namespace, f"{key.name}{CONFIG_SUFFIX}"))
        if config is not None:
            wanted = observed.offer.advertised.get(int(key.name.rpartition("-")[2]), ())
            if patch := withdrawal(ReplicaSecrets(config, state), wanted):
                yield patch


def _refusal_plan(ask: Ask, observed: Observed, refusal: Refusal) -> Plan:
    """Return the plan that reports *refusal* on a group, and does nothing else."""
    is_news = refusal.reason != CREATING
    return Plan(
        notes=[refusal.note(FAILED)] if is_news else [],
        status=status(ask.group, observed.children, refusal, observed.api),
        requeue_after=refusal.requeue_after,
        error=refusal.error,
    )
