"""Parses a Recorder into an `Ask` once, with the names of the objects that it needs, or with its faults."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tsoperator.api.labels import annotation_errors, label_errors
from tsoperator.api.names import AUTH_INFIX, PARENT_RECORDER
from tsoperator.api.objects import Object, key_of, spec_of, spec_text
from tsoperator.api.rules import namesake_error
from tsoperator.api.v1alpha1.invalid import Invalid
from tsoperator.api.v1alpha1.recorder import S3, Recorder, RecorderPod, RecorderServiceAccount, RecorderStatefulSet
from tsoperator.proxy.replica import replicas_error
from tsoperator.runtime.ownership import Owner
from tsoperator.settings import Settings

DEFAULT_TAGS: Final = ("tag:k8s",)
"""The tags of a Recorder's devices if its spec names none.

The variable PROXY_TAGS doesn't change them, because the policies of tailnets name this tag.
"""

_SECRET = re.compile(rf"({AUTH_INFIX})?-(\d+)")


@dataclass(frozen=True, slots=True)
class Ask:
    """The requests in the Recorder *obj*. *wrong* says why it is invalid; it is empty for a valid one.

    These are known even if the Recorder is invalid: *tailnet* is the Tailnet that it names, empty for the operator's
    own; *credentials* is the Secret with the credentials for its storage, empty if it names none; and *account* is the
    name of its ServiceAccount. *parsed* is None if the Recorder can't be parsed.
    """

    obj: Object
    tailnet: str
    credentials: str
    account: str
    wrong: str = ""
    parsed: Recorder | None = None

    @property
    def owner(self) -> Owner:
        """The owner of the Recorder's children, as their labels name it."""
        return Owner(PARENT_RECORDER, key_of(self.obj))

    @property
    def recorder(self) -> Recorder:
        """The parsed Recorder. Use this only if the Recorder is valid."""
        assert self.parsed is not None  # noqa: S101 (nothing is made for an invalid one)
        return self.parsed


def parse(obj: Object, _settings: Settings) -> Ask:
    """Return the requests in the Recorder *obj*, which need not be valid."""
    parsed, names = Recorder.parse(obj), (spec_text(obj, "tailnet"), credentials_name(obj), account_name(obj))
    if isinstance(parsed, Invalid):
        return Ask(obj, *names, parsed.message)
    return Ask(obj, *names, "; ".join(violations(parsed)), parsed)


def credentials_name(obj: Object) -> str:
    """Return the name of the Secret with the credentials for a Recorder's storage; empty if it names none."""
    return _text(spec_of(obj), "storage", "s3", "credentials", "secret", "name")


def account_name(obj: Object) -> str:
    """Return the name of the ServiceAccount of a Recorder: the name in the spec, or else that of the Recorder."""
    name: str = obj["metadata"]["name"]
    return _text(spec_of(obj), "statefulSet", "pod", "serviceAccount", "name") or name


def ordinal_in(name: str, secret: str) -> int | None:
    """Return the ordinal of the replica that has this *secret*, for the Recorder called *name*.

    Return None if the Secret isn't that of a replica.
    """
    found = _SECRET.fullmatch(secret, len(name)) if secret.startswith(name) else None
    return int(found[2]) if found else None


def pod_of(recorder: Recorder) -> RecorderPod:
    """Return the settings of the Pods of *recorder*; the defaults if it has none."""
    given = recorder.spec.stateful_set
    return given.pod if given and given.pod else RecorderPod()


def account_of(recorder: Recorder) -> RecorderServiceAccount:
    """Return the settings of the ServiceAccount of *recorder*; the defaults if it has none."""
    return pod_of(recorder).service_account or RecorderServiceAccount()


def s3_of(recorder: Recorder) -> S3 | None:
    """Return the S3 bucket in which *recorder* keeps its recordings; None if they are on the disk of the Pod."""
    return recorder.spec.storage.s3 if recorder.spec.storage else None


def violations(recorder: Recorder) -> Iterator[str]:
    """Yield what is wrong with *recorder*; each violation says how to fix it."""
    spec, name = recorder.spec, recorder.metadata.name
    if not spec.enable_ui and s3_of(recorder) is None:
        yield "nobody could get at its recordings: set enableUI, or storage.s3"
    if spec.replicas > 1 and s3_of(recorder) is None:
        yield "several replicas can't share a local disk: set storage.s3, or replicas to 1"
    if error := replicas_error(spec.replicas):
        yield f"{error}, or make another Recorder beside it"
    if misnamed := namesake_error(name):
        yield misnamed
    yield from _metadata_errors(recorder)


def _metadata_errors(recorder: Recorder) -> Iterator[str]:
    """Yield what is wrong with labels and annotations in *recorder*, with the path of the field."""
    given, pod = recorder.spec.stateful_set or RecorderStatefulSet(), pod_of(recorder)
    found = {
        "labels": label_errors(given.labels),
        "annotations": annotation_errors(given.annotations),
        "pod.labels": label_errors(pod.labels),
        "pod.annotations": annotation_errors(pod.annotations),
        "pod.serviceAccount.annotations": annotation_errors(account_of(recorder).annotations),
    }
    for field, errors in found.items():
        yield from (f".spec.statefulSet.{field}: {error}" for error in errors)


def host_in(endpoint: str) -> str:
    """Return the host, with its port, in the *endpoint* of a storage, if the user gave a URL or added a path.

    Return an empty text if the endpoint is only a host.
    """
    _, separator, rest = endpoint.rpartition("://")
    host, slash, _ = rest.partition("/")
    return host if separator or slash else ""


def missing_of_s3(recorder: Recorder) -> list[str]:
    """Return the empty fields of *recorder* that its storage probably needs.

    The credentials can also come from the cloud: by the ServiceAccount, by the environment, or by the node.
    """
    s3 = s3_of(recorder)
    if s3 is None:
        return []
    account, container = account_of(recorder), pod_of(recorder).container
    named = s3.credentials is not None and s3.credentials.secret is not None and bool(s3.credentials.secret.name)
    given = named or account.name or account.annotations or (container and container.env)
    fields = {"endpoint": s3.endpoint, "bucket": s3.bucket, "credentials": given}
    return [f"spec.storage.s3.{field}" for field, value in fields.items() if not value]


def _text(found: object, *path: str) -> str:
    """Return the text at the *path* in *found*, a Recorder that need not be valid; empty if there is none."""
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""
