"""The operator's rights that the loop tests of a run have used, and those that they have no use for."""

from collections.abc import Iterable, Iterator

from clustersim.rbac import Right, Rights

from tests.support.rbac import operators_rights

USED: set[Right] = set()
"""The rights that let a request of the operator through since the process began."""

_OWN = "tailscale"
_DNS = "kube-system"
_RBAC = "rbac.authorization.k8s.io"
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
            (_OWN, "", "services"),
        )
    },
    **{
        Right(_OWN, group, plural, "delete"): _ENFORCED
        for group, plural in (
            ("", "serviceaccounts"),
            ("apps", "deployments"),
            (_RBAC, "roles"),
            (_RBAC, "rolebindings"),
        )
    },
    Right(
        _OWN, "", "configmaps", "delete"
    ): "only more than a megabyte of names fills a second ConfigMap, which may go",
    Right(_OWN, "", "configmaps", "update"): "it replaces one that came while the operator was about to create it",
    Right(_OWN, "", "secrets", "update"): "it grants this to the proxies of ProxyGroups, and patches itself",
}
"""Why the chart grants what no loop test uses."""


def chart_rights() -> Rights:
    """Return the rights that the chart gives the operator."""
    rights = Rights()
    rights.give(*(each for each in operators_rights() if "rules" in each))
    return rights


def complaints(used: Iterable[Right]) -> Iterator[str]:
    """Yield what is wrong if the loop tests, all of them, have *used* these rights."""
    unused = chart_rights().granted.difference(used)
    for right in sorted(unused - UNUSED.keys()):
        yield f"no loop test uses this right of the chart, and {__name__} gives no reason for it: {right}"
    for right in sorted(UNUSED.keys() - unused):
        yield f"{__name__} has a reason for a right that is used, or not granted any more: {right}"
