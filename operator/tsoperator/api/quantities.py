"""Amounts of resources as Kubernetes writes them: ``100m``, ``0.5``, ``64Mi``."""

import re
from decimal import Decimal
from typing import Any, Final

PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""The pattern of the quantities that the API server accepts."""

_PARTS = re.compile(r"(?P<number>[+-]?[0-9.]+)(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_DECIMAL: Final = {
    suffix: 3 * power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
}
_BINARY: Final = {suffix: 2 ** (10 * power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}


def is_quantity(value: int | str) -> bool:
    """Tell whether the API server accepts *value* as an amount of a resource."""
    return isinstance(value, int) or re.search(PATTERN, value) is not None


def amount(value: Any) -> Any:
    """Return the number that *value* stands for, such as 1 for ``1000m``.

    Return *value* itself if it is no amount.
    """
    parts = _PARTS.fullmatch(str(value))
    if parts is None or not is_quantity(str(value)):
        return value
    number, suffix = Decimal(parts["number"]), parts["suffix"] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    return number.scaleb(_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))
