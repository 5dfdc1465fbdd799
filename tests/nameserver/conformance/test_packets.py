"""Unusual, malformed and mutated packets, and the source address of answers."""

import random
import socket
import struct

import dns.message
import dns.rcode
import pytest

from tests.nameserver.conformance.conftest import Send
from tests.nameserver.conformance.packets import GOOD, IN_TS_NET, OPT, QUESTION, message, numbered, rcode, with_opt
from tests.nameserver.conformance.process import PATIENCE, Server
from tests.nameserver.conformance.zone import DB
from tests.nameserver.random_queries import mutated
from tests.nameserver.samples import parsed, texts

UNANSWERED = {
    "empty": b"",
    "a byte": b"\0",
    "11 bytes": GOOD[:11],
    "a response": message(QUESTION, flags=0x8000),
    "a response with an opcode": message(QUESTION, flags=0xF800),
    "a bare response": message(flags=0x8400),
}


@pytest.mark.parametrize("packet", UNANSWERED.values(), ids=UNANSWERED)
def test_32_a_packet_that_is_not_a_query_gets_no_answer(server: Server, packet: bytes) -> None:
    with server.udp_socket() as client:
        client.send(packet)
        client.send(numbered(GOOD, 0x3232))  # its answer would come after an answer to the packet before
        assert client.recv(512)[:2] == b"\x32\x32"


@pytest.mark.parametrize(
    ("host", "client"), [("127.0.0.1", ""), ("127.0.0.2", ""), ("127.1.2.3", "127.0.0.9"), ("::1", "")]
)
def test_33_the_answer_comes_from_the_address_that_the_query_was_sent_to(
    wildcard: Server, host: str, client: str
) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.bind((client, 0))
        asking.settimeout(PATIENCE)
        for _ in range(3):
            asking.sendto(GOOD, (host, wildcard.port))
            response, source = asking.recvfrom(512)
            assert source[:2] == (host, wildcard.port)
            assert texts(parsed(response)) == ["100.64.0.1"]


@pytest.mark.parametrize("questions", [0, 2, 3, 65535])
def test_34_a_query_without_exactly_one_question_gets_formerr(send: Send, questions: int) -> None:
    for present in {0, 1, min(questions, 3)}:
        for opt in (b"", OPT):
            packet = message(QUESTION * present, opt, counts=(questions, 0, 0, bool(opt)))
            assert rcode(send(packet)) == "FORMERR"


RECORD = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 5, 4) + bytes([192, 0, 2, 1])
MALFORMED = {
    "truncated question": message(QUESTION[:-1]),
    "truncated name": message(QUESTION[:6]),
    "no question": message(),
    "trailing byte": message(QUESTION, b"\0"),
    "trailing record": message(QUESTION, RECORD),
    "trailing bytes after an OPT": with_opt(QUESTION) + b"\0\0",
    "missing answer": message(QUESTION, counts=(1, 1, 0, 0)),
    "missing authority": message(QUESTION, counts=(1, 0, 1, 0)),
    "half an authority": message(QUESTION, RECORD[:-3], counts=(1, 0, 1, 0)),
    "two answers": message(QUESTION, RECORD * 2, counts=(1, 2, 0, 0)),
    "two authorities": message(QUESTION, RECORD * 2, counts=(1, 0, 2, 0)),
    "three additional records": message(QUESTION, RECORD * 3, counts=(1, 0, 0, 3)),
    "65535 of each": message(QUESTION, counts=(1, 65535, 65535, 65535)),
    "4,000 more bytes": message(QUESTION, bytes(4000)),
}


@pytest.mark.parametrize("packet", MALFORMED.values(), ids=MALFORMED)
def test_35_a_packet_with_false_counts_or_too_many_records_gets_formerr(send: Send, packet: bytes) -> None:
    assert rcode(send(packet)) == "FORMERR"
    assert rcode(send(GOOD)) == "NOERROR"


@pytest.mark.parametrize("counts", [(1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (1, 1, 1, 1)], ids=str)
def test_35_further_records_in_a_query_are_ignored_or_get_formerr(
    send: Send, counts: tuple[int, int, int, int]
) -> None:
    response = send(message(QUESTION, RECORD * (sum(counts) - 1), counts=counts))
    assert rcode(response) in {"NOERROR", "FORMERR"}
    dns.message.from_wire(response)


@pytest.mark.parametrize("opcode", [1, 2, 4, 5], ids=["IQUERY", "STATUS", "NOTIFY", "UPDATE"])
def test_36_dynamic_updates_and_notifies_get_notimp_or_refused(send: Send, opcode: int) -> None:
    zone = IN_TS_NET + struct.pack("!HH", 6, 1)
    flags = opcode << 11
    whole = message(zone, RECORD, counts=(1, 0, 1, 0), flags=flags | 0x400)
    for query in (whole, message(zone, flags=flags), message(counts=(0, 0, 0, 0), flags=flags)):
        response = send(query)
        assert rcode(response) in {"NOTIMP", "REFUSED"}
        assert response[2] >> 3 & 0xF == opcode


BURST = 100


def burst_answers(client: socket.socket, burst: list[bytes]) -> set[bytes]:
    """Send the packets in *burst* and then a valid query.

    Return the answers that came before the answer to that query.
    """
    for packet in burst:
        client.send(packet)
    client.send(numbered(GOOD, 0xFFFF))
    answers = set()
    while (response := client.recv(4096))[:2] != b"\xff\xff":
        answers.add(response[2:])
    return answers


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.thorough)])
def test_37_mutated_queries_never_get_servfail_and_do_not_end_the_nameserver(server: Server, count: int) -> None:
    queries = mutated(random.Random(37), count)
    answers: set[bytes] = set()
    with server.udp_socket() as client:
        for _ in range(count // BURST):
            # The mutated IDs become 0, because 0xffff ends a burst, and so equal answers are parsed once.
            answers |= burst_answers(client, [b"\0\0" + next(queries)[2:] for _ in range(BURST)])
    seen = {dns.rcode.to_text(parsed(b"\0\0" + each).rcode()) for each in answers}
    assert seen == {"NOERROR", "FORMERR", "NXDOMAIN", "NOTIMP", "REFUSED", "BADVERS"}
    assert texts(server.ask(DB)) == ["100.64.0.1"]
    assert server.process.poll() is None
