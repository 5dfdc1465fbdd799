"""Tailnet: another tailnet than the operator's own, and the credentials for it."""

from pydantic import Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions
from tsoperator.api.v1alpha1.wire import CustomResource, WireModel


class TailnetCredentials(WireModel):
    """How the operator proves to the tailnet who it is."""

    secret_name: str
    """A Secret in the operator's namespace. Its key client_id names an OAuth client of the tailnet; client_secret has
    the client's secret. For workload identity, audience takes the place of client_secret, and counts if both are there.
    A change takes effect without a restart."""


class TailnetSpec(WireModel):
    """How the tailnet is reached."""

    credentials: TailnetCredentials
    """How the operator proves to the tailnet who it is."""
    login_url: str | None = None
    """The URL of the tailnet's control server. Unset means Tailscale's, even if the operator's own tailnet has another
    one."""


class TailnetStatus(WireModel):
    """What the operator has found out; it writes this, nobody else."""

    conditions: Conditions = ()
    """Whether the credentials are good for what the operator does in the tailnet (TailnetReady), and what is wrong if
    not."""


class Tailnet(CustomResource):
    """Tailnet is another tailnet than the operator's own. Connectors and ProxyGroups that name it in spec.tailnet join
    that one.
    """

    spec: TailnetSpec
    """How the tailnet is reached."""
    status: TailnetStatus = Field(default_factory=TailnetStatus)
    """What the operator has found out; it writes this, nobody else."""
