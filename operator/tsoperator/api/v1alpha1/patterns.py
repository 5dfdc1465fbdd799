"""The patterns that texts in a spec must match, and their meaning in words, so that no user has to read a pattern."""

from collections.abc import Mapping
from typing import Final

TAG: Final = r"^tag:[a-zA-Z][a-zA-Z0-9-]*$"
CONNECTOR_HOSTNAME: Final = r"^[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$"
GROUP_HOSTNAME: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
HOSTNAME_PREFIX: Final = r"^[a-z0-9][a-z0-9-]{0,61}$"
LABEL_VALUE: Final = r"^(([a-zA-Z0-9][-._a-zA-Z0-9]*)?[a-zA-Z0-9])?$"
VARIABLE_NAME: Final = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"
SERVICE_ACCOUNT_NAME: Final = r"^[a-z0-9]([a-z0-9-.]{0,61}[a-z0-9])?$"
ALLOCATION_ID: Final = r"^eipalloc-[0-9a-f]+$"
SUBNET_ID: Final = r"^subnet-[0-9a-f]+$"

WORDS: Final[Mapping[str, str]] = {
    TAG: "must be one such as tag:k8s, with a letter first after the colon, and then only letters, digits and hyphens",
    CONNECTOR_HOSTNAME: (
        "must be 2 to 63 lower-case letters, digits and hyphens, and have no hyphen at its ends: the first part "
        "of a name, without the tailnet's domain"
    ),
    GROUP_HOSTNAME: (
        "must be 1 to 63 lower-case letters, digits and hyphens, and have no hyphen at its ends: the first part "
        "of a name, without the tailnet's domain"
    ),
    HOSTNAME_PREFIX: "must be 1 to 62 lower-case letters, digits and hyphens, and not start with a hyphen",
    LABEL_VALUE: "must be empty, or letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    VARIABLE_NAME: "must be letters, digits, '-', '_' and '.', and not start with a digit",
    SERVICE_ACCOUNT_NAME: (
        "must be 1 to 63 lower-case letters, digits, hyphens and dots, with a letter or digit at both ends"
    ),
    ALLOCATION_ID: "must be eipalloc- and digits from 0 to 9 and a to f",
    SUBNET_ID: "must be subnet- and digits from 0 to 9 and a to f",
}
"""The meaning of each pattern in words. In a message, they follow the name of the field."""
