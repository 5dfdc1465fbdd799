"""docs/metrics.md has every metric that the two programs show, and no others."""

import pytest

from tests.docs.pages import rows, sections
from tests.docs.scrapes import families, nameserver_metrics, operator_metrics

PAGE = "metrics.md"


@pytest.mark.virtual_time
async def test_every_metric_of_the_operator_has_a_row_and_every_row_is_one() -> None:
    shown = families(await operator_metrics())
    assert "tsoperator_reconciles_total" in shown
    assert {*rows(sections(PAGE)["The operator"])} == shown


async def test_every_metric_of_the_nameserver_has_a_row_and_every_row_is_one() -> None:
    shown = families(await nameserver_metrics())
    assert "tsnameserver_dns_requests_total" in shown
    assert {*rows(sections(PAGE)["The nameserver"])} == shown
