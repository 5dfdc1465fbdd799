"""The leader's report, as a client reads it. An operator of another version can send fewer fields, or more."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

OK: Final = "ok"
WAITING: Final = "waiting"
"""The leader's verdicts on a thing that works, and on a thing that doesn't work yet. Any other verdict means that
somebody must act."""


class BadReport(ValueError):
    """An error: the answer of a Pod is no report of this operator."""


class _Part(BaseModel):
    """The fields of the leader's judgement of one thing. If *cure* is empty, the *words* say what to do."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)

    name: str = ""
    verdict: str = OK
    reason: str = ""
    words: str = ""
    cure: str = ""
    since: str = ""


class ReportedObject(_Part):
    """An object, its names and addresses, and the leader's judgement of it."""

    kind: str
    namespace: str = ""
    role: str = ""
    tailnet: str = ""
    names: Sequence[str] = ()
    addresses: Sequence[str] = ()
    in_cluster: str = ""
    cluster_addresses: Sequence[str] = ()
    ready: int = 0
    wanted: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class ReportedTailnet(_Part):
    """The leader's judgement of a tailnet. *name* is that of its Tailnet; empty for the operator's own tailnet."""

    domain: str = ""


class ReportedDNS(_Part):
    """The leader's judgement of the nameserver, or of the cluster's DNS."""


class ReportedRefusal(BaseModel):
    """A refusal that the operator has met.

    *by* is the server that refused. If that is the API server, *what* is the resource that the operator isn't allowed
    to see; otherwise *what* is the name of a check of the preflight.
    """

    what: str
    by: str = ""
    tailnet: str = ""
    words: str = ""
    cure: str = ""


class LeaderReport(BaseModel):
    """The report of the leader. *raw* has all of the report as parsed JSON, with the fields that we don't know."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)

    objects: Sequence[ReportedObject]
    version: str = ""
    namespace: str = ""
    pod: str = ""
    leading_since: str = ""
    generated: str = ""
    tailnets: Sequence[ReportedTailnet] = ()
    dns: Sequence[ReportedDNS] = ()
    refusals: Sequence[ReportedRefusal] = ()
    raw: dict[str, Any]


def read_report(body: bytes) -> LeaderReport:
    """Return the report in the *body* of an answer. Raises BadReport."""
    try:
        found = from_json(body)
        return LeaderReport.model_validate({**found, "raw": found})
    except (ValidationError, ValueError, TypeError) as error:
        raise BadReport(f"{body[:80]!r}") from error
