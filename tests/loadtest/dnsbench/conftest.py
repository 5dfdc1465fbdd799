"""Fixtures: the compiled client, and our nameserver with some names."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from dnsbench.client import Client
from dnsbench.process import Server
from dnsbench.servers import Installed, Kind

from tests.loadtest.compiling import client_program

NAMES = 50
SERVER_CORE, CLIENT_CORE = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))


@pytest.fixture(scope="session")
def client() -> Client:
    """Return the compiled client. Its method `run` calls its argument *tick* five times a second."""
    return Client(client_program(), CLIENT_CORE, tick_seconds=0.2)


@pytest.fixture(scope="session")
def folder_of_ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the records that the fixture `ours` serves."""
    return tmp_path_factory.mktemp("ours")


@pytest.fixture(scope="session")
def ours(folder_of_ours: Path) -> Iterator[Server]:
    """Yield our nameserver, which serves `NAMES` names."""
    with Installed.find({Kind.OURS}, None).serve(Kind.OURS, NAMES, folder_of_ours, SERVER_CORE) as server:
        yield server
