"""The account that the Pods of a workload run under, if it has one of its own."""

from collections.abc import Sequence

from tsoperator.api.objects import ROLE, ROLEBINDING, SERVICEACCOUNT, Object
from tsoperator.proxy.proxy import Proxy


def account(proxy: Proxy, rules: Sequence[Object]) -> list[Object]:
    """Return the ServiceAccount of the Pods of *proxy*, with a Role that has these *rules*."""
    name = proxy.key.name
    subject = {"kind": SERVICEACCOUNT.kind, "name": name, "namespace": proxy.key.namespace}
    role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name}
    return [
        proxy.child(SERVICEACCOUNT, name),
        proxy.child(ROLE, name, {"rules": rules}),
        proxy.child(ROLEBINDING, name, {"roleRef": role, "subjects": [subject]}),
    ]
