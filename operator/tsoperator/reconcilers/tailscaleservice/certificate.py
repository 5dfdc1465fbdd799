"""The objects of a certificate of a Tailscale Service: its Secret, and the Role and RoleBinding for the proxies.

The proxies of the ProxyGroup get the certificate and write it into the Secret. The operator never writes there.
"""

from collections.abc import Iterator, Mapping, Sequence

from tsoperator.api.labels import label_value
from tsoperator.api.names import (
    LABEL_DOMAIN,
    LABEL_MANAGED,
    LABEL_PARENT_NAME,
    LABEL_PARENT_NAMESPACE,
    LABEL_PARENT_TYPE,
    LABEL_SECRET_TYPE,
    MANAGED,
    PARENT_INGRESS,
    PARENT_PROXYGROUP,
    PROXY_GROUP,
    SECRET_TYPE_CERTS,
)
from tsoperator.api.objects import ROLE, ROLEBINDING, SECRET, SERVICEACCOUNT, Key, Object, Resource, is_deleting, key_of
from tsoperator.group.claims import LabelClaim
from tsoperator.runtime.diff import metadata_patch
from tsoperator.runtime.plan import Child, Creation, Patch, Step

KINDS = (ROLEBINDING, ROLE, SECRET)
"""The kinds of the objects of a certificate, in the order of their deletion."""


def certificate_objects(key: Key, claim: LabelClaim) -> Sequence[Object]:
    """Return the Role, the RoleBinding and the Secret of the certificate for *claim*.

    They have the same *key*: the operator's namespace, and the domain.
    """
    found = {LABEL_MANAGED: MANAGED, PROXY_GROUP: claim.group, LABEL_DOMAIN: label_value(key.name)}
    of_secret = {
        **found,
        LABEL_SECRET_TYPE: SECRET_TYPE_CERTS,
        LABEL_PARENT_TYPE: PARENT_PROXYGROUP if claim.sole_owner else PARENT_INGRESS,
        LABEL_PARENT_NAME: label_value(claim.key.name),
        **({LABEL_PARENT_NAMESPACE: claim.key.namespace} if claim.key.namespace else {}),
    }
    verbs = ["get", "list", "patch", "update"]
    rules = [{"apiGroups": [""], "resources": [SECRET.plural], "resourceNames": [key.name], "verbs": verbs}]
    role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": key.name}
    subject = {"kind": SERVICEACCOUNT.kind, "name": claim.account, "namespace": key.namespace}
    empty = {"tls.crt": "", "tls.key": ""}
    return [
        _object(ROLE, key, found, {"rules": rules}),
        _object(ROLEBINDING, key, found, {"roleRef": role, "subjects": [subject]}),
        _object(SECRET, key, of_secret, {"type": "kubernetes.io/tls", "data": empty}),
    ]


def certificate_steps(key: Key, claim: LabelClaim, secret: Object | None) -> Iterator[Step]:
    """Yield the steps that make the objects of the certificate for *claim* right.

    *secret* is the live slim Secret, None if there is none. Only its labels are changed, because its data are the
    certificate.
    """
    role, binding, wanted = certificate_objects(key, claim)
    yield from (Child(role), Child(binding))
    if secret is None:
        yield Creation(wanted)
    elif not is_deleting(secret) and (patch := metadata_patch(secret, wanted)):
        yield Patch(SECRET, key_of(secret), {"metadata": patch})


def _object(resource: Resource, key: Key, labels: Mapping[str, str], content: Object) -> Object:
    metadata = {"namespace": key.namespace, "name": key.name, "labels": dict(labels)}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
