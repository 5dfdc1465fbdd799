"""The compiled client, and our server with some names."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from dnsbench.client import Client, compile_client
from dnsbench.process import Server
from dnsbench.queries import Query, encoded
from dnsbench.servers import Installed, Kind

NAMES = 50
CORE = max(os.sched_getaffinity(0))


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(compile_client(tmp_path_factory.mktemp("client")), CORE)


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    installed = Installed.find({Kind.OURS}, None)
    with installed.serve(Kind.OURS, NAMES, tmp_path_factory.mktemp("ours"), min(os.sched_getaffinity(0))) as server:
        yield server


@pytest.fixture
def file_of(tmp_path: Path) -> "FileOf":
    return FileOf(tmp_path)


class FileOf:
    """Writes queries as the client reads them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, *queries: Query) -> Path:
        path = self._folder / "some.queries"
        path.write_bytes(b"".join(encoded(queries)))
        return path
