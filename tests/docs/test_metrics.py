"""docs/metrics.md has every metric that the two programs show, and no others."""

from tests.docs.pages import rows, sections
from tests.docs.scrapes import families

PAGE = "metrics.md"


def test_every_metric_of_the_operator_has_a_row_and_every_row_is_one(operator_page: str) -> None:
    shown = families(operator_page)
    assert "tsoperator_reconciles_total" in shown
    assert {*rows(sections(PAGE)["The operator"])} == shown


def test_every_metric_of_the_nameserver_has_a_row_and_every_row_is_one(nameserver_page: str) -> None:
    shown = families(nameserver_page)
    assert "tsnameserver_dns_requests_total" in shown
    assert {*rows(sections(PAGE)["The nameserver"])} == shown
