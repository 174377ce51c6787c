"""Requests to webhooks: the inputs that a request gives, and the response that the workflow declares."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast
from urllib.parse import parse_qsl

from pydantic import JsonValue

from operad.operators.nodes.flow import WEBHOOK_RAW, Trigger
from operad.operators.secrets import find_secret
from operad.operators.variables import part_at
from operad.runtime.values.valid_json import repeated_keys
from operad.server.api.experts import Offer
from operad.server.api.served_run import ServedRun
from operad.server.api.signatures import delivery_id
from operad.server.http.problems import RefusedError

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
"""Methods that the request of a webhook may have."""

_MOST_FIELDS = 1_000
"""Maximum number of fields of a form."""

_PRIVATE = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers with keys, which `WEBHOOK_RAW` leaves out."""


def _trigger_of(offer: Offer) -> Trigger:
    if offer.webhook is None:
        raise RefusedError(404, f"{offer.name!r} is not started by a webhook; POST /runs starts it", param="expert")
    return offer.webhook.trigger


async def delivered_run_id(offer: Offer, headers: Mapping[str, str], body: bytes) -> str | None:
    """Return the id of the run of a delivery, the same for the same delivery; None if the sender names none.

    Raises:
        RefusedError: The webhook has a secret, and the request is not signed with it; it has none, and the page of another
            origin sent the request; or the offer takes no webhook.
    """
    name, delivery = _trigger_of(offer).secret, headers.get("idempotency-key", "")
    if name:
        secret = await asyncio.to_thread(find_secret, name)
        if not secret:
            raise RefusedError(503, f"the secret of the webhook of {offer.name!r} has no value now", retry_after=60)
        delivery = delivery_id(secret, headers, body, time.time())
    elif headers.get("sec-fetch-site") in ("cross-site", "same-site") and "origin" not in headers:
        # A page can have a browser request an image or a link, with the user's cookies and without an Origin.
        raise RefusedError(403, "a page of another origin may not start a run; have a program call the webhook")
    return f"webhook-{sha256(f'{offer.name} {delivery}'.encode()).hexdigest()[:32]}" if delivery else None


def webhook_inputs(
    offer: Offer, method: str, headers: Mapping[str, str], query: Mapping[str, str], body: bytes
) -> dict[str, JsonValue]:
    """Return the inputs that a request gives to a workflow; names that are not in the request are left out.

    Args:
        offer: The workflow.
        method: The method of the request.
        headers: Its headers, with names in lower case.
        query: Its query.
        body: Its body.

    Raises:
        RefusedError: The workflow takes no webhook, or another method, media type or form of body.
    """
    trigger = _trigger_of(offer)
    if method.lower() != trigger.method:
        refused = RefusedError(405, f"the webhook of {offer.name!r} takes {trigger.method.upper()}, not {method}")
        refused.headers["Allow"] = trigger.method.upper()
        raise refused
    content_type = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if content_type != trigger.content_type.lower():
        raise RefusedError(415, f"the webhook of {offer.name!r} takes {trigger.content_type}, not {content_type[:100]}")
    fields = _body_fields(content_type, body)
    inputs: dict[str, JsonValue] = {}
    for name, part, field in trigger.inputs:
        if part == "header":
            key = field.lower()
            near = (key, key.replace("_", "-"), key.replace("-", "_"))
            found = next((headers[each] for each in near if each in headers), None)
        elif part == "body" and isinstance(fields, str):
            found = fields or None
        else:
            found = query.get(field) if part == "query" else _value_at(fields, field)
        if found is not None:
            inputs[name] = found
        elif offer.start is None:  # an input of an expert has no default
            raise RefusedError(400, f"{part}.{field}: is missing in the request, or null", param="inputs")
    if offer.start and any(variable.name == WEBHOOK_RAW for variable in offer.start.variables):
        shown = {name: value for name, value in headers.items() if name not in _PRIVATE}
        inputs[WEBHOOK_RAW] = {
            "method": method,
            "headers": cast("JsonValue", shown),
            "query_params": cast("JsonValue", dict(query)),
            "body": {"raw": fields} if isinstance(fields, str) else cast("JsonValue", fields),
            "files": {},
        }
    return inputs


def _value_at(fields: Any, path: str) -> Any:
    """Return the value at a path in a body; None if there is none. A field whose name is the whole path comes first."""
    if not path or path in fields:
        return fields if not path else fields[path]
    try:
        return part_at(fields, path)
    except LookupError:
        return None


def _body_fields(content_type: str, body: bytes) -> dict[str, Any] | str:
    """Return the fields of a body by name, or a text."""
    if content_type in ("application/octet-stream", "multipart/form-data"):
        raise RefusedError(415, f"this server takes no files: the body is {content_type}; run it by operad run --file")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(400, "body: is not UTF-8 text") from error
    if content_type == "application/json":
        return _json_fields(text)
    if content_type == "application/x-www-form-urlencoded":
        try:
            return dict(reversed(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)))
        except ValueError as error:
            raise RefusedError(400, f"body: cannot be read as a form: {error}") from error
    return text


def _json_fields(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"body: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RefusedError(400, "body: must be a JSON object")
    if next(repeated_keys(text), None) is not None:
        raise RefusedError(400, "body: has an object with a key twice")
    return cast("dict[str, Any]", value)


def webhook_response(offer: Offer, run: ServedRun, *, begun: bool) -> tuple[int, Any]:
    """Return the status and the body of the response: what the workflow declares, or the id of the run."""
    trigger = _trigger_of(offer)
    if not trigger.response:
        success = {"status": "success"} if offer.start else {}  # as Dify's
        return trigger.status if begun else 200, success | {"id": run.id}
    if trigger.response.lstrip().startswith(("{", "[")):
        try:
            return trigger.status, json.loads(trigger.response)
        except (ValueError, RecursionError):
            pass
    return trigger.status, {"message": trigger.response}
