"""What several custom resources say of the devices that they make in the tailnet."""

from typing import Annotated

from pydantic import Field

from tsoperator.api.v1alpha1.patterns import HOSTNAME_PREFIX, TAG
from tsoperator.api.v1alpha1.wire import unchanged

Tag = Annotated[str, Field(pattern=TAG)]
HostnamePrefix = Annotated[str, Field(pattern=HOSTNAME_PREFIX)]
TailnetName = Annotated[str, Field(json_schema_extra=unchanged("it can't move to another tailnet: make it anew"))]
