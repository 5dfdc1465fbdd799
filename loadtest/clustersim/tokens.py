"""Tokens of ServiceAccounts, as the API server issues them to programs that ask by a TokenRequest."""

import base64
import binascii
import json
import time
from typing import Any

from clustersim.encoding import encode
from clustersim.errors import bad_request, invalid
from clustersim.kinds import Target
from clustersim.objects import SERVICEACCOUNT, Object
from clustersim.store import Store

SUBRESOURCE = "token"
AUDIENCE = "https://kubernetes.default.svc.cluster.local"
"""The audience of the API server itself. It is the default if a request names no audience."""

_SECONDS = 3600
_LEAST_SECONDS = 600


def issue(store: Store, target: Target, request: Object) -> Object:
    """Return the TokenRequest *request* with a token for the ServiceAccount that *target* names.

    The signature in the token is a fixed text. Raises ApiError: 404 if the ServiceAccount doesn't exist, 422 if the
    requested lifetime is too short.
    """
    account = store.get(SERVICEACCOUNT, target.namespace, target.name)
    spec = request.get("spec") or {}
    audiences, seconds = spec.get("audiences") or [AUDIENCE], spec.get("expirationSeconds") or _SECONDS
    if not isinstance(seconds, int) or not isinstance(audiences, list):
        raise bad_request("the object provided is unrecognized: it is no TokenRequest")
    if seconds < _LEAST_SECONDS:
        cause = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
        raise invalid(SERVICEACCOUNT, target.name, "spec.expirationSeconds", cause)
    now = int(time.time())
    claims = {
        "aud": audiences,
        "exp": now + seconds,
        "iat": now,
        "iss": AUDIENCE,
        "sub": f"system:serviceaccount:{target.namespace}:{target.name}",
    }
    expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + seconds))
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": target.name, "namespace": target.namespace, "uid": account["metadata"]["uid"]},
        "spec": {"audiences": audiences, "expirationSeconds": seconds},
        "status": {
            "token": ".".join((_part({"alg": "RS256"}), _part(claims), "c2lnbmF0dXJl")),
            "expirationTimestamp": expires,
        },
    }


def claims_of(token: str) -> dict[str, Any]:
    """Return the claims in *token*, or {} if it doesn't have the form of a token."""
    try:
        _, payload, _ = token.split(".")
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims


def _part(value: Object) -> str:
    return base64.urlsafe_b64encode(encode(value)).decode().rstrip("=")
