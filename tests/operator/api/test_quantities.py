"""Amounts of CPU, memory and other resources."""

from decimal import Decimal

import pytest
from tsoperator.api.quantities import amount, is_quantity


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("100m", "0.1"), ("1000m", "1"), (1, "1"), ("0.5", "0.5"), (".5", "0.5"), ("1.", "1"), ("2k", "2000"),
        ("64Mi", "67108864"), ("1.5Gi", "1610612736"), ("1536Mi", "1610612736"), ("1e3", "1000"), ("1E-3", "0.001"),
        ("5E", "5000000000000000000"), ("-1u", "-0.000001"), ("+3n", "0.000000003"),
    ],
)  # fmt: skip
def test_an_amount_such_as_500m_is_read_as_a_number(value: int | str, number: str) -> None:
    assert is_quantity(value)
    assert amount(value) == Decimal(number)


@pytest.mark.parametrize("value", ["", "lots", "1 Gi", "1K", "Mi", "1.2.3", "0x1"])
def test_a_text_that_is_no_amount_stays_a_text(value: str) -> None:
    assert not is_quantity(value)
    assert amount(value) == value
