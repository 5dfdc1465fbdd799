"""Connects to a device as Tailscale's Funnel does for a client on the Internet.

The connection goes into the device's peer API, and then by TLS to the device's name. The module runs as a script on the
machine `peer`, so it uses only the standard library. It prints the body of the page.
"""

import argparse
import http.client
import socket
import ssl
import struct

CLIENT = "192.0.2.1:40000"  # the address of the client that Funnel's server would report to the device
PATIENCE = 5.0  # seconds


def through_socks(proxy: tuple[str, int], address: tuple[str, int]) -> socket.socket:
    """Connect to an IPv4 *address* through a SOCKS5 *proxy* (RFC 1928). Raises OSError."""
    connection = socket.create_connection(proxy, PATIENCE)
    connection.sendall(b"\x05\x01\x00")
    connection.recv(2)
    host, port = address
    connection.sendall(b"\x05\x01\x00\x01" + socket.inet_aton(host) + struct.pack("!H", port))
    if (answer := connection.recv(10))[1:2] != b"\x00":
        raise ConnectionError(f"the SOCKS proxy refuses {host}:{port}: {answer.hex()}")
    return connection


def enter(connection: socket.socket, target: str) -> None:
    """Ask a device's peer API to forward the connection to *target*, a name and a port. Raises ConnectionError."""
    head = f"Host: peer\r\nTailscale-Ingress-Src: {CLIENT}\r\nTailscale-Ingress-Target: {target}\r\n"
    connection.sendall(f"POST /v0/ingress HTTP/1.1\r\n{head}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
        answer += byte
    if not answer.startswith(b"HTTP/1.1 101 "):
        raise ConnectionError(f"the device refuses {target}: {answer.decode(errors='replace').splitlines()[:1]}")


def page(connection: socket.socket, name: str, root: str) -> str:
    """Fetch ``/`` over TLS from a server called *name*.

    The file *root* has the root certificate that the client trusts.
    """
    with ssl.create_default_context(cafile=root).wrap_socket(connection, server_hostname=name) as secured:
        client = http.client.HTTPConnection(name)
        client.sock = secured
        client.request("GET", "/", headers={"Connection": "close"})
        return client.getresponse().read().decode()


def main() -> None:
    """Fetch the page that the command line names, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proxy", help="SOCKS5 proxy into the tailnet, ADDRESS:PORT")
    parser.add_argument("peer_api", help="the device's peer API, ADDRESS:PORT")
    parser.add_argument("target", help="what a client on the Internet connects to, NAME:PORT")
    parser.add_argument("root", help="file with the root certificate")
    arguments = parser.parse_args()
    connection = through_socks(_address(arguments.proxy), _address(arguments.peer_api))
    enter(connection, arguments.target)
    print(page(connection, arguments.target.rpartition(":")[0], arguments.root), end="")  # noqa: T201


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    main()
