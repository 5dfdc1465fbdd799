"""Tailnet: another tailnet than the operator's own, and the credentials for it."""

from pydantic import Field

from tsoperator.api.v1alpha1.kubernetes_types import Conditions
from tsoperator.api.v1alpha1.wire import CustomResource, WireModel


class TailnetCredentials(WireModel):
    """The credentials of the operator for the tailnet."""

    secret_name: str
    """A Secret in the operator's namespace. Its key client_id names an OAuth client of the tailnet; client_secret has
    the client's secret. For workload identity, the Secret has the key audience instead of client_secret. With both,
    audience is used. A change of the Secret needs no restart of the operator."""


class TailnetSpec(WireModel):
    """The control server of the tailnet, and the credentials for it."""

    credentials: TailnetCredentials
    """The credentials of the operator for the tailnet."""
    login_url: str | None = None
    """The URL of the tailnet's control server. Unset means Tailscale's, even if the operator's own tailnet has another
    one."""


class TailnetStatus(WireModel):
    """The findings of the operator. Only the operator writes them."""

    conditions: Conditions = ()
    """The condition TailnetReady. It is True if the credentials are good for the operator's work in the tailnet. If
    not, its message says what is wrong."""


class Tailnet(CustomResource):
    """Tailnet is another tailnet than the operator's own. Proxies of objects that name it in spec.tailnet join it."""

    spec: TailnetSpec
    """The control server of the tailnet, and the credentials for it."""
    status: TailnetStatus = Field(default_factory=TailnetStatus)
    """The findings of the operator. Only the operator writes them."""
