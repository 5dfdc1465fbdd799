"""The StatefulSet that runs the replicas of a Recorder, as the Go operator makes it."""

from collections.abc import Mapping, Sequence
from typing import Final

from tsoperator.api.names import AUTH_KEY_FILE
from tsoperator.api.objects import Object
from tsoperator.api.v1alpha1.recorder import S3, Recorder, RecorderContainer
from tsoperator.proxy.overlay import amounts
from tsoperator.proxy.proxy import Proxy
from tsoperator.proxy.statefulset import from_field, statefulset, trusting, variable
from tsoperator.reconcilers.recorder.ask import account_of, pod_of, s3_of
from tsoperator.runtime.given import with_given
from tsoperator.settings import Settings

_CONTAINER: Final = "recorder"
_DATA: Final = "/data"
_RECORDINGS: Final = f"{_DATA}/recordings"
_AUTH_KEYS: Final = "/etc/tailscaled"


def selector(recorder: Recorder, proxy: Proxy) -> Mapping[str, str]:
    """Return the labels by which the StatefulSet of *recorder* selects its Pods.

    The Pods have these labels, too. If a label in the spec has the same key as one of ours, ours wins.
    """
    return {**pod_of(recorder).labels, **proxy.owner.labels}


def recorder_statefulset(recorder: Recorder, proxy: Proxy, settings: Settings) -> Object:
    """Return the StatefulSet of *recorder*, whose Pods are the replicas of *proxy*."""
    pod, name = pod_of(recorder), proxy.key.name
    labels = selector(recorder, proxy)
    metadata = {"name": name, "namespace": proxy.key.namespace, "labels": labels, "annotations": {**pod.annotations}}
    given = {
        "affinity": pod.affinity,
        "securityContext": pod.security_context,
        "imagePullSecrets": [*pod.image_pull_secrets],
        "nodeSelector": {**pod.node_selector},
        "tolerations": [*pod.tolerations],
    }
    keys = [(f"authkey-{each.ordinal}", each) for each in proxy.replicas]
    items = [{"key": AUTH_KEY_FILE, "path": AUTH_KEY_FILE}]
    mounts = [
        {"name": "data", "mountPath": _DATA},
        *({"name": key, "mountPath": f"{_AUTH_KEYS}/{each.state_secret.name}", "readOnly": True} for key, each in keys),
    ]
    volumes = [
        {"name": "data", "emptyDir": {}},
        *({"name": key, "secret": {"secretName": each.config_secret.name, "items": items}} for key, each in keys),
    ]
    spec = {
        "serviceAccountName": account_of(recorder).name or name,
        **{field: value for field, value in given.items() if value},
        "containers": [{**_container(recorder, proxy, settings), "volumeMounts": mounts}],
        "volumes": volumes,
    }
    made = statefulset(proxy, labels, {"metadata": metadata, "spec": trusting(spec, settings)})
    wishes = recorder.spec.stateful_set
    return with_given(made, wishes.labels, wishes.annotations) if wishes else made


def _container(recorder: Recorder, proxy: Proxy, settings: Settings) -> Object:
    given, s3 = pod_of(recorder).container or RecorderContainer(), s3_of(recorder)
    credentials = s3.credentials.secret if s3 and s3.credentials else None
    optional = {
        "imagePullPolicy": given.image_pull_policy,
        "resources": amounts(given.resources or {}),
        "securityContext": given.security_context,
        "envFrom": [{"secretRef": {"name": credentials.name}}] if credentials and credentials.name else [],
    }
    return {
        "name": _CONTAINER,
        "image": given.image or settings.recorder_image,
        "command": ["/tsrecorder"],
        "env": [
            from_field("POD_NAME", "metadata.name"),
            from_field("POD_UID", "metadata.uid"),
            variable("TS_AUTHKEY_FILE", f"{_AUTH_KEYS}/$(POD_NAME)/{AUTH_KEY_FILE}"),
            variable("TS_STATE", "kube:$(POD_NAME)"),
            variable("TSRECORDER_HOSTNAME", "$(POD_NAME)"),
            variable("TSRECORDER_LOGIN_SERVER", proxy.config.server_url),
            *(variable(each.name, each.value or "") for each in given.env),
            *_storage(s3),
            *([variable("TSRECORDER_UI", "true")] if recorder.spec.enable_ui else ()),
        ],
        **{field: value for field, value in optional.items() if value},
    }


def _storage(s3: S3 | None) -> Sequence[Object]:
    """Return the environment variables that say where recordings are kept.

    They come last, so that variables in the spec can't replace them.
    """
    if s3 is None:
        return [variable("TSRECORDER_DST", _RECORDINGS)]
    return [variable("TSRECORDER_DST", f"s3://{s3.endpoint or ''}"), variable("TSRECORDER_BUCKET", s3.bucket or "")]
