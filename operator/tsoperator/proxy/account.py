"""The ServiceAccount under which the Pods of a proxy run, if the proxy has its own, and the rights of that account."""

from collections.abc import Mapping, Sequence

from tsoperator.api.objects import ROLE, ROLEBINDING, SERVICEACCOUNT, Object
from tsoperator.proxy.proxy import Proxy
from tsoperator.runtime.given import with_given


def account(
    proxy: Proxy, rules: Sequence[Object], account_name: str = "", annotations: Mapping[str, str] | None = None
) -> list[Object]:
    """Return the ServiceAccount of the Pods of *proxy*, with a Role that has these *rules*, and a RoleBinding.

    The name of the ServiceAccount is *account_name* or, if that is empty, the name of the proxy. *annotations* are the
    annotations that the parent wants on the ServiceAccount.
    """
    name = proxy.key.name
    account_name = account_name or name
    subject = {"kind": SERVICEACCOUNT.kind, "name": account_name, "namespace": proxy.key.namespace}
    role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name}
    return [
        with_given(proxy.child(SERVICEACCOUNT, account_name), {}, annotations or {}),
        proxy.child(ROLE, name, {"rules": rules}),
        proxy.child(ROLEBINDING, name, {"roleRef": role, "subjects": [subject]}),
    ]
