"""Tests of the parser of queries.

The conformance tests 16, 17, 21, 23, 34 and 35 have the malformed queries.
"""

import struct

import pytest
from tsnameserver.errors import FormatError
from tsnameserver.query import Opt, parse_query

from tests.nameserver.samples import wire

QUESTION = b"\x02Ts\x03neT\x00\x00\x1c\x00\x03"
OPT = bytes.fromhex("00 0029 0800 00 01 8000 0000")
OTHER = b"\xc0\x0c" + struct.pack("!HHIH", 250, 255, 0, 3) + b"abc"
READ = Opt(0x800, 1, dnssec_ok=True)


@pytest.mark.parametrize(
    ("counts", "records", "opt"),
    [((0, 0, 0), b"", None), ((0, 0, 1), OPT, READ), ((0, 0, 2), OTHER + OPT, READ), ((0, 1, 1), OTHER + OPT, READ)],
    ids=["a question", "an OPT record", "one after another record", "one after a section"],
)
def test_a_dns_query_is_parsed_into_its_question_and_its_opt_record(
    counts: tuple[int, int, int], records: bytes, opt: Opt | None
) -> None:
    query = parse_query(bytes(4) + struct.pack("!4H", 1, *counts) + QUESTION + records)
    assert query == (QUESTION, b"\x02ts\x03net\x00", 28, 3, opt)


def test_the_parser_refuses_a_dns_query_that_is_cut_short() -> None:
    whole = wire("db.tail1234.ts.net", use_edns=0)
    for end in range(12, len(whole)):
        with pytest.raises(FormatError):
            parse_query(whole[:end])
