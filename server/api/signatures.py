"""Secrets of webhooks: signatures of requests, and ids by which a delivery that is sent again is known.

Three forms are accepted, all with the same secret: the signature of Standard Webhooks (https://www.standardwebhooks.com),
that of GitHub, and a bearer token. Comparisons take the same time for all texts.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping

from operad.server.http.problems import RefusedError

TOLERANCE = 300
"""Maximum age of a signed request with a time stamp, in seconds; also how far it may be ahead."""

_PREFIX = "whsec_"
"""Beginning of a secret of Standard Webhooks, whose rest is in base64."""


def delivery_id(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str:
    """Return the id of a delivery, which is the same if it is sent again; empty if the sender gives none.

    Args:
        secret: The secret of the webhook.
        headers: Headers of the request, with names in lower case.
        now: The time, in seconds since 1970.

    Raises:
        RefusedError: The request is not signed with the secret, or too old.
    """
    if "webhook-signature" in headers:
        return _standard(secret, headers, body, now)
    if signed := headers.get("x-hub-signature-256"):
        _check(f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}", signed)
        return headers.get("x-github-delivery", "")
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        raise _refused("is missing")
    _check(secret, given.strip())
    return headers.get("idempotency-key", "")


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str:
    delivery, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not delivery or not (sent.isascii() and sent.isdigit() and len(sent) <= 15):
        raise _refused("needs the headers webhook-id and webhook-timestamp")
    signature = _signature(secret, delivery, sent, body)
    given = [each.removeprefix("v1,") for each in headers["webhook-signature"].split()[:10] if each.startswith("v1,")]
    matching = [each for each in given if hmac.compare_digest(each.encode(), signature.encode())]
    if not matching:
        raise _refused("does not match")
    if abs(now - int(sent)) > TOLERANCE:
        raise _refused(f"is of a request more than {TOLERANCE} s ago, or ahead; send it anew")
    return delivery


def signed_headers(secret: str, delivery: str, body: bytes, now: float) -> Mapping[str, str]:
    """Return the headers that sign a message of ours as Standard Webhooks says; a repeated one keeps its delivery id."""
    sent = str(int(now))
    signature = f"v1,{_signature(secret, delivery, sent, body)}"
    return {"webhook-id": delivery, "webhook-timestamp": sent, "webhook-signature": signature}


def _signature(secret: str, delivery: str, sent: str, body: bytes) -> str:
    try:
        key = b64decode(secret.removeprefix(_PREFIX), validate=True) if secret.startswith(_PREFIX) else secret.encode()
    except ValueError:
        key = secret.encode()
    return b64encode(hmac.new(key, f"{delivery}.{sent}.".encode() + body, hashlib.sha256).digest()).decode()


def _check(expected: str, given: str) -> None:
    if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogateescape")):
        raise _refused("does not match")


def _refused(why: str) -> RefusedError:
    return RefusedError(
        401,
        f"the signature {why}; sign the body with the secret of the webhook (webhook-signature or X-Hub-Signature-256), or "
        "send the secret as: Authorization: Bearer SECRET",
        param="Authorization",
    )
