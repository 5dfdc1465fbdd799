"""Which identity the API server sees, and which callers are refused."""

import json

from tsoperator.apiproxy.head import head_length, parse_request
from tsoperator.apiproxy.impersonation import AccessMode, Admission, caller, decide

REQUEST = (
    b"GET /version HTTP/1.1\r\nHost: k8s.example.org\r\nConnection: Impersonate-User\r\nAuthorization: Bearer x\r\n\r\n"
)


def test_a_user_is_impersonated_whatever_the_head_says() -> None:
    raw = json.dumps({"Node": {"Name": "laptop.tail1234.ts.net."}, "UserProfile": {"LoginName": "alice@example.org"}})
    assert head_length(REQUEST) == len(REQUEST)
    head = parse_request(REQUEST)
    decision = decide(caller(raw), AccessMode.AUTH, head)
    assert isinstance(decision, Admission)
    assert decision.head(head, "secret") == (
        b"GET /version HTTP/1.1\r\nHost: k8s.example.org\r\n"
        b"Authorization: Bearer secret\r\nImpersonate-User: alice@example.org\r\n\r\n"
    )
