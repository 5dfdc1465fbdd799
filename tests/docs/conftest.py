"""The metrics pages of the two programs, which several tests read."""

import asyncio

import pytest

from tests.docs.scrapes import nameserver_metrics, operator_metrics
from tests.support.patient import PatientLoop


@pytest.fixture(scope="session")
def operator_page() -> str:
    """What Prometheus reads of an operator that has worked for some seconds, which are virtual ones."""
    with asyncio.Runner(loop_factory=PatientLoop) as runner:
        return runner.run(operator_metrics())


@pytest.fixture(scope="session")
def nameserver_page() -> str:
    """What Prometheus reads of a nameserver."""
    return asyncio.run(nameserver_metrics())
