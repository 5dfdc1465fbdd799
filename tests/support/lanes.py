"""Chooses the cases of a table that `make test` runs. (`make test-all` runs all of them.)"""

from collections.abc import Mapping

import pytest
from _pytest.mark import ParameterSet


def cases(table: Mapping[str, object], *default: str) -> list[ParameterSet]:
    """Return the cases of *table* as parameters of a test, marked `thorough` except those that *default* names."""
    assert {*default} <= {*table}
    thorough = (pytest.mark.thorough,)
    return [pytest.param(case, id=name, marks=() if name in default else thorough) for name, case in table.items()]
