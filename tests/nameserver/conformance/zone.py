"""The records that the tested nameserver serves, and one question for each kind of answer."""

from typing import NamedTuple

import dns.message
import dns.rcode
import dns.rdatatype
from tsnameserver.records import render

from tests.nameserver.samples import RECORDS

DB = "db.tail1234.ts.net"
SHORT = "db.ts.net"
"""A short name, so that tests can ask for it in every combination of upper and lower case."""
LONG_LABEL = f"{'l' * 63}.ts.net"
LONGEST = f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 54}.ts.net"
"""A name of 255 bytes on the wire."""
EXACT = f"{'e' * 14}.tail1234.ts.net"
"""A name whose answer is 512 bytes long: 12 of header, 36 of question, 29 addresses of 16."""
LARGE = "large.tail1234.ts.net"
"""A name whose answer is longer than 1232 bytes."""
ADDRESSES = [f"198.51.100.{number}" for number in range(80)]
SOA = "nameserver.tailscale.svc.cluster.local. hostmaster.ts.net. 7 3600 600 86400 5"
SERVED = RECORDS.model_copy(
    update={
        "ip4": {
            **RECORDS.ip4,
            SHORT: ["100.64.0.7"],
            LONG_LABEL: ["100.64.0.8"],
            LONGEST: ["100.64.0.9"],
            EXACT: ADDRESSES[:29],
            LARGE: ADDRESSES,
        }
    }
)
DOCUMENT = render(SERVED)


class Case(NamedTuple):
    """A question, and the expected status and data of its answer."""

    name: str
    qtype: str
    rcode: str
    answers: tuple[str, ...] = ()


POSITIVE = [
    Case(DB, "A", "NOERROR", ("100.64.0.1",)),
    Case(DB, "AAAA", "NOERROR", ("2001:db8::1",)),
    Case("v4.tail1234.ts.net", "A", "NOERROR", ("100.64.0.4", "100.64.0.3")),
    Case("v6.tail1234.ts.net", "AAAA", "NOERROR", ("2001:db8::6",)),
    Case("ts.net", "NS", "NOERROR", ("nameserver.tailscale.svc.cluster.local.",)),
    Case("ts.net", "SOA", "NOERROR", (SOA,)),
]
NO_DATA = [
    Case("v4.tail1234.ts.net", "AAAA", "NOERROR"),
    Case("none.tail1234.ts.net", "A", "NOERROR"),
    Case("tail1234.ts.net", "A", "NOERROR"),
    Case("ts.net", "AAAA", "NOERROR"),
    Case("ts.net", "TYPE1000", "NOERROR"),
    Case(DB, "HTTPS", "NOERROR"),
    Case(DB, "SOA", "NOERROR"),
]
NO_NAME = [
    Case("no.tail1234.ts.net", "A", "NXDOMAIN"),
    Case("x.db.tail1234.ts.net", "AAAA", "NXDOMAIN"),
    Case("eep.ts.net", "HTTPS", "NXDOMAIN"),
    Case("no.ts.net", "TYPE1000", "NXDOMAIN"),
]
NEGATIVE = NO_DATA + NO_NAME
OUTSIDE = [Case(name, "A", "REFUSED") for name in (".", "net", "xts.net", "ts.net.example.org", "example.org")]


def check_nodata(response: dns.message.Message) -> None:
    """Check that *response* is NODATA: it has no error and no answer, and only a SOA record in the authority section.

    This says that the name exists, but has no records of the requested type.
    """
    assert (response.rcode(), response.answer) == (dns.rcode.NOERROR, [])
    assert [rrset.rdtype for rrset in response.authority] == [dns.rdatatype.SOA]
