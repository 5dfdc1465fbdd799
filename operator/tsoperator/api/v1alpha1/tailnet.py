"""Tailnet: another tailnet than the operator's own, and the credentials for it (dns-crds-chart.md section 7.7)."""

from pydantic import Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions
from tsoperator.api.v1alpha1.wire import CustomResource, WireModel


class TailnetCredentials(WireModel):
    """The OAuth client that the operator is to the tailnet."""

    secret_name: str
    """A Secret in the operator's namespace with client_id, and client_secret or, for workload identity, audience."""


class TailnetSpec(WireModel):
    """How the tailnet is reached."""

    credentials: TailnetCredentials
    """The OAuth client that the operator is to the tailnet."""
    login_url: str | None = None
    """The URL of the tailnet's control server. Unset means Tailscale's."""


class TailnetStatus(WireModel):
    """What the operator has found out; it writes this, nobody else."""

    conditions: Conditions = ()
    """Whether the tailnet can be used (TailnetReady), and what is wrong if not."""


class Tailnet(CustomResource):
    """Tailnet is another tailnet than the operator's own, for proxies to join that name it in spec.tailnet."""

    spec: TailnetSpec
    """How the tailnet is reached."""
    status: TailnetStatus = Field(default_factory=TailnetStatus)
    """What the operator has found out; it writes this, nobody else."""
