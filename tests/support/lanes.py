"""Which cases of a table `make test` runs; `make test-all` runs all."""

from collections.abc import Mapping

import pytest
from _pytest.mark import ParameterSet


def cases(table: Mapping[str, object], *default: str) -> list[ParameterSet]:
    """Return the parameters of a test: the *table*, in which all are thorough that aren't named by *default*."""
    assert {*default} <= {*table}
    return [pytest.param(case, id=name, marks=_marks(name in default)) for name, case in table.items()]


def _marks(is_default: bool) -> list[pytest.MarkDecorator]:
    return [] if is_default else [pytest.mark.thorough]
