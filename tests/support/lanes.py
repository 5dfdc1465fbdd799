"""Which cases of a table `make test` runs; `make test-all` runs all."""

from collections.abc import Mapping

import pytest
from _pytest.mark import ParameterSet


def cases(table: Mapping[str, object], *default: str) -> list[ParameterSet]:
    """Return the parameters of a test: the *table*, in which all are thorough that aren't named by *default*."""
    assert {*default} <= {*table}
    thorough = (pytest.mark.thorough,)
    return [pytest.param(case, id=name, marks=() if name in default else thorough) for name, case in table.items()]
