"""Forwards a port of a Pod through the API server, and sends HTTP requests to the server at that port.

The kubernetes package transfers the bytes, in a thread of its own. It needs a method of one of its generated API
classes. The operator's image doesn't have these classes, so this module has a small class with such a method.
"""

import http.client
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Thread
from types import SimpleNamespace, TracebackType
from typing import Any, Final, NamedTuple, Self

from kubernetes.aio.client import Configuration
from kubernetes.client import Configuration as BlockingConfiguration
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward
from kubernetes.stream.ws_client import V4_CHANNEL_PROTOCOL
from pydantic_core import from_json
from websocket import WebSocket, WebSocketConnectionClosedException, WebSocketException

from tsoperator.api.objects import POD, Key, Object
from tsoperator.kube.config import tls_context
from tsoperator.kube.errors import NotListening, Unreachable, error_of

_SHARED: Final = ("verify_ssl", "ssl_ca_cert", "cert_file", "key_file", "assert_hostname", "tls_server_name", "proxy")
"""The fields of a configuration that matter for a port-forward.

The kubernetes package has one class of configurations for asyncio, and one for blocking calls. Both have these fields.
"""


class PodAnswer(NamedTuple):
    """The status, the body and the ETag of an answer by HTTP."""

    status: int
    body: bytes
    etag: str

    @classmethod
    def read(cls, connection: http.client.HTTPConnection, path: str, etag: str) -> Self:
        """Return the answer to a GET of *path*. Raises OSError, HTTPException.

        The status of the answer is 304 if the page still has this *etag*. The request names localhost as its host,
        because the server of the report answers no other requests.
        """
        headers = {"Host": "localhost"} | ({"If-None-Match": etag} if etag else {})
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return cls(response.status, response.read(), response.headers.get("ETag") or "")


class ForwardedPort:
    """A port of a Pod, forwarded through the API server. Use it as a context manager, or close() it.

    Its methods raise KubeError: a StatusError if the API server refuses, NotListening if nothing in the Pod listens at
    the port, and Unreachable if the connection breaks, or if nothing arrives for *timeout* seconds.
    """

    def __init__(self, configuration: Configuration, token: str, pod: Key, port: int, timeout: float = 10.0) -> None:
        """*token* is the value of the header Authorization; empty if we authenticate by a certificate."""
        self._where = f"port {port} of Pod {pod}"
        self._port = port
        self._forward = _opened(configuration, token, pod, port, timeout)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self._connection.auto_open = 0  # when the Pod has closed the connection, do not ask a server on this machine
        self._connection.sock = self._forward.socket(port)
        self._connection.sock.settimeout(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._forward.close()

    def get(self, path: str, etag: str = "") -> PodAnswer:
        """Return the server's answer to a GET of *path*; its status is 304 if the page still has the *etag*."""
        try:
            return PodAnswer.read(self._connection, path, etag)
        except (OSError, http.client.HTTPException) as error:
            if said := self._forward.error(self._port):
                raise NotListening(f"{self._where}: {said.strip()}") from error
            raise Unreachable(f"{self._where}: {str(error) or type(error).__name__}") from error


def _opened(configuration: Configuration, token: str, pod: Key, port: int, timeout: float) -> Any:
    """Return the port-forward as the kubernetes package makes it, within *timeout* seconds. Raises KubeError."""
    tls_context(configuration)  # its error says what is wrong with the certificates
    blocking = BlockingConfiguration(host=configuration.host)
    for name in _SHARED:
        setattr(blocking, name, getattr(configuration, name))
    headers = {"authorization": token} if token else {}
    where = POD.path(pod.namespace, pod.name, "portforward")
    method = _PodMethod(blocking, f"{where}?ports={port}", headers)
    try:
        forward = _in_time(lambda: portforward(method.call), timeout)
    except TimeoutError:
        raise Unreachable(f"GET {where}: no answer within {timeout:g} s") from None
    except ApiException as error:
        cause = error.__context__
        status = getattr(cause, "status_code", 0)
        if status:
            raise error_of(status, _status_in(getattr(cause, "resp_body", None)), f"GET {where}") from cause
        raise Unreachable(f"GET {where}: {error.reason}") from cause
    forward.websocket.recv_data_frame = _with_an_end(forward.websocket)
    return forward


def _in_time(call: Callable[[], Any], seconds: float) -> Any:
    """Return the result of *call*, which runs in a thread.

    Raises the errors of *call*, and TimeoutError after *seconds*. The kubernetes package sets no limit on a
    handshake. If there is no answer, the thread ends with the process.
    """
    done = Future[Any]()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001 (it is raised where the result is awaited)
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    return done.result(seconds)


def _with_an_end(opened: WebSocket) -> Callable[[bool], Any]:
    """Return a function that reads from *opened*, and always raises the same error if the connection breaks.

    At this error, the thread of the kubernetes package ends the forwarded connection. At any other error, the thread
    would only print a traceback, and we would wait for an answer in vain.
    """
    receive = opened.recv_data_frame

    def receive_or_end(control_frame: bool) -> Any:
        try:
            return receive(control_frame)
        except (OSError, WebSocketException) as error:
            opened.shutdown()
            raise WebSocketConnectionClosedException(str(error)) from error

    return receive_or_end


class _PodMethod:
    """A request to the API server, in the form of the generated methods of the package kubernetes."""

    def __init__(self, configuration: BlockingConfiguration, path: str, headers: Mapping[str, str]) -> None:
        self.api_client = SimpleNamespace(configuration=configuration, call_api=None)
        self._url = f"{configuration.host}{path}"
        self._headers = {**headers, "sec-websocket-protocol": V4_CHANNEL_PROTOCOL}

    def call(self, **_options: object) -> Any:
        """Open the WebSocket of the port-forward, and return it.

        The kubernetes package replaces ``call_api`` by a function that opens a WebSocket in place of an HTTP request.
        """
        return self.api_client.call_api("GET", self._url, header_params=self._headers).response


def _status_in(body: bytes | None) -> Object:
    """Return the Status in the *body* of a refusal; empty if there is none."""
    try:
        found = from_json(body or b"")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
