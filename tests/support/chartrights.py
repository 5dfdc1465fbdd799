"""The operator's rights that the loop tests of a run have used, and the reasons for rights that no loop test uses."""

from collections.abc import Iterable, Iterator

from clustersim.rbac import Right, Rights

from tests.support.rbac import operators_rights

USED: set[Right] = set()
"""The rights that have allowed a request of an operator since this process began."""

_OWN = "tailscale"
_DNS = "kube-system"
_ENFORCED = "admission asks for it, when an owner reference is written: it is no request"
_OPENSHIFT = "the simulated API server has no OpenShift"
_ELSEWHERE = "CoreDNS of the loop tests reads ConfigMap coredns, or coredns-custom"

UNUSED: dict[Right, str] = {
    **{
        Right("", "operator.openshift.io", "dnses", verb, "default"): _OPENSHIFT
        for verb in ("get", "list", "patch", "watch")
    },
    **{
        Right(_DNS, "", "configmaps", verb, name): _ELSEWHERE
        for verb in ("get", "patch")
        for name in ("coredns-base", "rke2-coredns-rke2-coredns")
    },
    Right(_DNS, "", "configmaps", "get", "kube-dns"): "it reads who else writes there, if somebody undoes its changes",
    **{
        Right(namespace, group, f"{plural}/finalizers", "update"): _ENFORCED
        for namespace, group, plural in (
            ("", "tailscale.com", "dnsconfigs"),
            ("", "tailscale.com", "proxygroups"),
            ("", "tailscale.com", "recorders"),
            (_OWN, "", "services"),
        )
    },
    Right(_OWN, "discovery.k8s.io", "endpointslices", "get"): "it reads one that is in the way of a new one",
    Right(
        _OWN, "", "configmaps", "delete"
    ): "only more than a megabyte of names fills a second ConfigMap, which may go",
    Right(_OWN, "", "configmaps", "update"): "it replaces one that came while the operator was about to create it",
    **{
        Right(
            "", "admissionregistration.k8s.io", plural, "get"
        ): "it reads one that came while it was about to create it"
        for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    },
    Right(_OWN, "", "secrets", "update"): "it grants this to the Pods of ProxyGroups and Recorders, and patches itself",
}
"""The rights of the chart that no loop test uses, and the reasons for granting them."""


BY_CHANCE = {Right(_OWN, "discovery.k8s.io", "endpointslices", "get")}
"""The rights in `UNUSED` that only some runs use: those in which the cache doesn't show an existing object in time."""


def chart_rights() -> Rights:
    """Return the rights that the chart gives the operator."""
    rights = Rights()
    rights.give(*(each for each in operators_rights() if "rules" in each))
    return rights


def complaints(used: Iterable[Right]) -> Iterator[str]:
    """Yield a sentence for each right of the chart that is neither in *used* nor in `UNUSED`.

    Also yield a sentence for each right in `UNUSED` that the chart doesn't give, and for each that is in *used* but not
    in `BY_CHANCE`.
    """
    granted = chart_rights().granted
    unused = granted.difference(used)
    for right in sorted(unused - UNUSED.keys()):
        yield f"no loop test uses this right of the chart, and {__name__} gives no reason for it: {right}"
    for right in sorted(UNUSED.keys() - unused - (BY_CHANCE & granted)):
        yield f"{__name__} has a reason for a right that is used, or not granted any more: {right}"
