"""Checks the operator's Pods by the answers of their probes and metrics (pure)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tsoperator.api.names import LABEL_OPERATOR, OPERATOR
from tsoperator.api.objects import TAILNET
from tsoperator.check.findings import Finding, failed, ok, unseen
from tsoperator.status.parts import NOT_LOOKED, SET_UP, UNSEEN_CURE, unseen_words

WATCHES: Final = "watches"
"""The name of the check whether the operator is allowed to see the objects that it watches."""
OUR_PODS: Final = f"{LABEL_OPERATOR}={OPERATOR}"
"""The label selector of the operator's Pods."""

_CURES: Final = {
    "api": "see that OPERATOR_LOGIN_SERVER (loginServer of the chart) is the URL of a control server, and that the "
    "operator's Pods can reach it",
    "credentials": "put the ID and the secret of an OAuth client of your tailnet into the Secret operator-oauth "
    "(client_id, client_secret); with workload identity, see that the client trusts this cluster",
    "auth_keys": "give the OAuth client the scope Auth Keys with write access, or use another client that has it",
    "devices": "give the OAuth client the scope Devices Core with write access, or use another client that has it",
    "services": "give the OAuth client the scope Services with write access, or use another client that has it",
    "tags": "use an OAuth client that has the tag tag:k8s-operator: without a tag it can make no auth keys",
}
LACKS: Final = {
    "api": "the control server does not answer as one",
    "credentials": "the control server does not accept the OAuth client",
    "auth_keys": "the OAuth client may not make auth keys",
    "devices": "the OAuth client may not see and change devices",
    "services": "the OAuth client may not write Tailscale Services",
    "tags": "the OAuth client may not give tags to devices",
}


@dataclass(frozen=True, slots=True)
class OperatorPod:
    """One Pod of the operator.

    *at* is its name or its endpoint. *wrong* says why it isn't ready, and *cure* what to do. *samples* are its metrics.
    *unread* says why we couldn't read its metrics. A Pod that *is_ending* needn't be ready, but can still lead.
    """

    at: str
    wrong: str = ""
    cure: str = ""
    samples: Sequence[Sample] = field(default=(), repr=False)
    unread: str = ""
    is_ending: bool = False

    def values(self, name: str) -> Iterator[Sample]:
        """Yield the samples of the metric *name*."""
        yield from (each for each in self.samples if each.name == name)

    @property
    def leads(self) -> bool:
        """True if this Pod leads."""
        return any(each.value for each in self.values("tsoperator_leading"))


class Page(NamedTuple):
    """The HTTP status and the text of the answer to a probe or a scrape."""

    status: int
    text: str


def read_replica(at: str, readyz: Page, metrics: Page, cure: str) -> OperatorPod:
    """Return the facts about a Pod of the operator, from the pages of its readiness probe and its metrics.

    *at* is the Pod's name or endpoint. *cure* says what to do if the Pod isn't ready.
    """
    samples = parse_metrics(metrics.text) if metrics.status == 200 else []
    if readyz.status != 200:
        why = [line.removeprefix("[-] ") for line in readyz.text.splitlines() if line.startswith("[-] ")]
        wrong = f"not ready: {', '.join(why) or f'HTTP {readyz.status}'}"
    else:
        wrong = "" if samples else f"its port of metrics shows none (HTTP {metrics.status})"
    return OperatorPod(at, wrong, cure if wrong else "", samples)


def parse_metrics(page: str) -> list[Sample]:
    """Return the samples of all metrics in the text of *page*; empty if the text can't be parsed as metrics."""
    try:
        return [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    except ValueError:
        return []


def check_replicas(namespace: str, replicas: Sequence[OperatorPod]) -> Iterator[Finding]:
    """Check *replicas*, the operator's Pods in *namespace*; there must be at least one."""
    for each in replicas:
        if each.is_ending:
            continue
        if each.wrong:
            yield failed("operator", f"operator at {each.at}: {each.wrong}", each.cure)
        else:
            yield ok("operator", f"operator at {each.at} is ready")
    leaders = [each for each in replicas if each.leads]
    unread = next((each for each in replicas if each.unread), None)
    if unread is not None and not leaders:
        yield _unread(namespace, unread)
    elif any(each.samples for each in replicas):
        yield _leadership(namespace, leaders, replicas)
    for leader in leaders:
        yield from _preflight(namespace, leader)
        yield from _watches(leader)
        yield from _proxies(namespace, leader)


def _unread(namespace: str, replica: OperatorPod) -> Finding:
    return unseen(
        "leader",
        f"the metrics of the Pod {replica.at} can't be read, so whether it leads is unknown: {replica.unread}",
        f"you need the right to get pods/proxy in namespace {namespace}, and the API server must reach Pods; "
        "`helm test` needs neither",
    )


def _leadership(namespace: str, leaders: Sequence[OperatorPod], replicas: Sequence[OperatorPod]) -> Finding:
    if len(leaders) == 1:
        return ok("leader", f"operator at {leaders[0].at} leads" + (", until it ends" if leaders[0].is_ending else ""))
    if leaders:
        return failed(
            "leader",
            f"{len(leaders)} Pods of the operator lead at a time",
            "check again: one may have taken over from another during this check. If this stays, do not set "
            "OPERATOR_LEADER_ELECTION to false where there are several replicas",
        )
    return failed(
        "leader",
        f"no Pod of the operator leads ({len(replicas)} looked at), so nothing in the cluster is served",
        f"check again in a minute; if this stays, see what they wait for with `kubectl -n {namespace} logs "
        f"-l {OUR_PODS}`: perhaps for a Pod of another operator to end, or for the Lease "
        f"(`kubectl -n {namespace} get lease tailscale-operator`)",
    )


def _preflight(namespace: str, leader: OperatorPod) -> Iterator[Finding]:
    """Yield a finding for each failed check of a tailnet, from the leader's metrics; one finding if all have passed."""
    looks = [*leader.values("tsoperator_preflight")]
    if not any(not each.labels["tailnet"] for each in looks):
        yield failed(
            "preflight",
            NOT_LOOKED,
            f"wait a minute; if this stays, `kubectl -n {namespace} logs -l {OUR_PODS}` says why",
        )
    for each in looks:
        check, tailnet = each.labels["check"], each.labels["tailnet"]
        if not each.value:
            about = f"{TAILNET.kind} {tailnet}" if tailnet else ""
            what = LACKS.get(check, f"the check {check!r} of the tailnet failed")
            words = ": ".join(filter(None, (about, what)))
            yield replace(failed(f"preflight/{check}", words, _preflight_cure(namespace, check, tailnet)), about=about)
    if looks and all(each.value for each in looks):
        yield ok("preflight", SET_UP)


def _preflight_cure(namespace: str, check: str, tailnet: str) -> str:
    if tailnet:
        return f"`kubectl describe tailnet {tailnet}` says what to do"
    cure = _CURES.get(check, "see docs/tailnet-policy.md")
    return f"{cure}; `kubectl -n {namespace} get events --field-selector reason=PreflightFailed` says more"


def _watches(leader: OperatorPod) -> Iterator[Finding]:
    """Yield a finding for each resource that the leader isn't allowed to watch."""
    for each in leader.values("tsoperator_watch_refused"):
        if each.value:
            resource, namespace = each.labels["resource"], each.labels["namespace"]
            yield failed(
                WATCHES,
                unseen_words(resource, namespace),
                UNSEEN_CURE,
            )


def _proxies(namespace: str, leader: OperatorPod) -> Iterator[Finding]:
    """Yield one finding with the number of proxies that serve."""
    counts = Counter[str]()
    waiting: list[str] = []
    for each in leader.values("tsoperator_proxies"):
        counts[each.labels["ready"]] += int(each.value)
        if each.value and each.labels["ready"] == "false":
            waiting.append(f"{int(each.value)} of type {each.labels['parent']}")
    if waiting:
        yield failed(
            "proxies",
            f"{counts['false']} of {counts.total()} proxies don't serve ({', '.join(sorted(waiting))})",
            f"`tsoperator check` with your kubeconfig says which and why; or look at `kubectl -n {namespace} get pods "
            "-l tailscale.com/managed=true`",
        )
    else:
        count = counts.total()
        yield ok("proxies", f"proxies that serve: {count} of {count}" if count else "there are no proxies yet")
