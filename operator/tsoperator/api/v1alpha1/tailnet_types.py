"""The types of fields for devices in the tailnet, which several custom resources have."""

from typing import Annotated

from pydantic import Field

from tsoperator.api.v1alpha1.patterns import HOSTNAME_PREFIX, TAG
from tsoperator.api.v1alpha1.wire import immutable_keyword

Tag = Annotated[str, Field(pattern=TAG)]
HostnamePrefix = Annotated[str, Field(pattern=HOSTNAME_PREFIX)]
TailnetName = Annotated[
    str, Field(json_schema_extra=immutable_keyword("it can't move to another tailnet: make it anew"))
]
