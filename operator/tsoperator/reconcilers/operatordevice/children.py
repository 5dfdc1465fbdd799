"""The Secrets of the operator's own device, which its registration and the API server proxy have in common."""

from collections.abc import Iterator

from tsoperator.api.objects import SECRET, Key, Object, key_of
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.replica import ReplicaSecrets
from tsoperator.proxy.secret import config_patch, encoded
from tsoperator.proxy.tailscaled import config_files
from tsoperator.reconcilers.operatordevice.ask import Ask
from tsoperator.runtime.ownership import is_anothers
from tsoperator.runtime.plan import Creation, Step


def secret_steps(ask: Ask, proxy: Proxy, secrets: ReplicaSecrets, auth_key: str, *, has_state: bool) -> Iterator[Step]:
    """Yield the steps that make the Secrets of the device, or bring its config up to date.

    *has_state* tells that the Secret with the state exists. It gets none of our labels, as the Go operator makes it,
    because it outlives what is removed.
    """
    if not has_state:
        yield Creation(_secret(ask.key))
    if secrets.config is None:
        secret = proxy.child(SECRET, ask.config.name, {"type": "Opaque"})
        yield Creation({**secret, "data": encoded(config_files(proxy.config, auth_key))})
    elif patch := config_patch(secrets, proxy.config, auth_key):
        yield patch


def stranger_among(ask: Ask, *objects: Object | None) -> Object | None:
    """Return the first of *objects*, which have names of children, that belongs to another owner; None if none does."""
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
