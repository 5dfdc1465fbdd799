"""Fixtures: running nameservers, and functions that query them by UDP and by TCP."""

from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import pytest
from tsnameserver.compiled import COMPILED

from tests.nameserver.conformance.process import Server, nameserver
from tests.nameserver.conformance.zone import DOCUMENT
from tests.nameserver.samples import parsed

Send = Callable[[bytes], bytes]
Ask = Callable[[dns.message.Message], dns.message.Message]


@pytest.fixture(
    scope="session",
    autouse=True,
    params=["python", pytest.param("auto", marks=pytest.mark.skipif(not COMPILED, reason="no compiled loop"))],
    ids=["python", "compiled"],
)
def loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run each test with the loop in Python and then with the compiled loop."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TSNAMESERVER_UDP_LOOP", request.param)
        yield


@pytest.fixture(scope="session")
def records_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "records.json"
    path.write_text(DOCUMENT)
    return path


@pytest.fixture(scope="session")
def server(records_file: Path, loop: None) -> Iterator[Server]:
    with nameserver(records_file) as running:
        yield running


@pytest.fixture(scope="session")
def wildcard(records_file: Path, loop: None) -> Iterator[Server]:
    """Yield a nameserver that listens on all addresses of both IP families, as in a Pod."""
    with nameserver(records_file, listen=":0") as running:
        yield running


@pytest.fixture(params=["udp", "tcp"])
def send(request: pytest.FixtureRequest, server: Server) -> Send:
    """Return a function that sends bytes to the server, by UDP or by TCP, and returns the bytes of the answer."""
    return server.udp if request.param == "udp" else server.tcp


@pytest.fixture
def ask(send: Send) -> Ask:
    """Return a function that sends a DNS message and returns the answer as a message."""

    def ask_server(query: dns.message.Message) -> dns.message.Message:
        response = parsed(send(query.to_wire()))
        assert response.id == query.id
        return response

    return ask_server
