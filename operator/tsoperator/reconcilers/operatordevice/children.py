"""The Secrets of the operator's own device, which its registration and the API server proxy have in common."""

from collections.abc import Iterator

from tsoperator.api.objects import SECRET, SERVICEACCOUNT, Key, Object, key_of, uid
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import config_patch
from tsoperator.proxy.stored import encoded
from tsoperator.proxy.tailscaled import config_files
from tsoperator.reconcilers.operatordevice.ask import Ask
from tsoperator.runtime.ownership import is_anothers
from tsoperator.runtime.plan import Creation, Patch, Step


def secret_steps(
    ask: Ask, proxy: Proxy, secrets: ReplicaSecrets, auth_key: str, *, has_state: bool, account: Object | None = None
) -> Iterator[Step]:
    """Yield the steps that make the Secrets of the device, or bring its config up to date.

    *has_state* tells whether the Secret with the state exists. This Secret never gets our labels, so it stays when the
    operator removes the other objects. If a ServiceAccount *account* is given, it becomes the owner of the config
    Secret, which is deleted together with it.
    """
    if not has_state:
        yield Creation(_secret(ask.key))
    if secrets.config is None:
        secret = proxy.child(SECRET, ask.config.name, {"type": "Opaque"})
        metadata = {**secret["metadata"], **_owners(account)}
        yield Creation({**secret, "metadata": metadata, "data": encoded(config_files(proxy.config, auth_key))})
    else:
        patch = config_patch(secrets, proxy.config, auth_key)
        if account and not any(
            each["uid"] == uid(account) for each in secrets.config["metadata"].get("ownerReferences") or ()
        ):
            yield Patch(
                SECRET,
                ask.config,
                {**(patch.body if patch else {}), "metadata": _owners(account)},
                "the owner of the configuration",
            )
        elif patch:
            yield patch


def reference_to(account: Object) -> Object:
    """Return the owner reference to *account*.

    When Helm removes *account*, the garbage collector deletes the objects with this reference.
    """
    return {
        "apiVersion": SERVICEACCOUNT.api_version,
        "kind": SERVICEACCOUNT.kind,
        "name": key_of(account).name,
        "uid": uid(account),
    }


def _owners(account: Object | None) -> Object:
    return {"ownerReferences": [reference_to(account)]} if account else {}


def stranger_among(ask: Ask, *objects: Object | None) -> Object | None:
    """Return the first of *objects* that belongs to another owner than our device; None if none does.

    The objects have names that our children need.
    """
    return next((each for each in objects if each and is_anothers(each, ask.owner)), None)


def in_the_way(obj: Object) -> str:
    """Return the message that *obj*, an object of somebody else, has a name that the operator's own device needs."""
    return (
        f"{obj['kind']} {key_of(obj)} is in the way: it belongs to somebody else, so it is left alone. Delete it if "
        "nothing needs it, or set OPERATOR_SECRET to another name (fullnameOverride of the chart)"
    )


def _secret(key: Key) -> Object:
    metadata = {"namespace": key.namespace, "name": key.name}
    return {"apiVersion": SECRET.api_version, "kind": SECRET.kind, "metadata": metadata, "type": "Opaque"}
