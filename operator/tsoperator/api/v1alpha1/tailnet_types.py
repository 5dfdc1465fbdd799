"""What several custom resources say of the devices that they make in the tailnet (dns-crds-chart.md section 7)."""

from typing import Annotated, Final

from pydantic import Field, JsonValue

Tag = Annotated[str, Field(pattern=r"^tag:[a-zA-Z][a-zA-Z0-9-]*$")]
HostnamePrefix = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,61}$")]


def unchanged(message: str) -> dict[str, JsonValue]:
    """Return the schema keywords of a field that can't be changed; *message* says so."""
    return {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": message}]}


OTHER_TAILNET: Final = "it can't move to another tailnet: make it anew"
