"""Protocols of OpenAI: which of them an endpoint speaks, and what to do if it speaks the other."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

Api = Literal["chat-completions", "responses"]
"""Protocol of an endpoint."""

_RESPONSES_HOSTS = re.compile(
    r"([\w-]+\.)?api\.openai\.com|[\w.-]+\.(openai\.azure|cognitiveservices\.azure|services\.ai\.azure)\.(com|us|cn)",
    re.IGNORECASE,
)
_ASKS_FOR_RESPONSES = re.compile(r"/responses\b|\bresponses (api|endpoint)\b", re.IGNORECASE)
_ASKS_FOR_CHAT = re.compile(r"chat[/ _.-]?completions|\bresponses (api|endpoint)\b", re.IGNORECASE)
_UNKNOWN_MODEL = re.compile("model_not_found|DeploymentNotFound", re.IGNORECASE)


def assumed_api(base_url: str) -> Api:
    """Return the protocol of an endpoint by its address: responses at OpenAI and Azure OpenAI, otherwise chat completions.

    Azure has addresses of a single deployment, too, which speak chat completions alone.
    """
    try:
        parts = urlsplit(base_url)
        has_responses = _RESPONSES_HOSTS.fullmatch(parts.hostname or "") and "/deployments/" not in parts.path
    except ValueError:  # an invalid address, which the client reports
        has_responses = False
    return "responses" if has_responses else "chat-completions"


_SETTINGS = {
    re.compile(
        "response_format|json_schema"
    ): "if this endpoint has no JSON Schemas, set the model's `structured` to False",
    re.compile("tools|tool[_ ]choice"): "if this endpoint has no tool calls, set the model's `tools` to 'constrained'",
}
"""Setting of the model that avoids a field of a request, by the words of an endpoint that rejects the field."""


def advice_on(api: Api, status: int, code: str, message: str) -> str:
    """Return advice on an error that a setting of the model avoids; empty for other errors.

    Args:
        api: The protocol of the request.
        status: HTTP status of the answer.
        code: Error code of the endpoint; may be empty.
        message: Error message of the endpoint.
    """
    if status in (403, 429) or status >= 500 or _UNKNOWN_MODEL.search(code):
        return ""
    if api == "chat-completions" and _ASKS_FOR_RESPONSES.search(message):
        return "the model needs the responses protocol: set its `api` to 'responses', as in Model(…, api=\"responses\")"
    if api == "responses" and (status in (404, 405) or _ASKS_FOR_CHAT.search(message)):
        return (
            "if this endpoint or model does not have the responses protocol, set the model's `api` to "
            "'chat-completions', as in Model(…, api=\"chat-completions\")"
        )
    return next((advice for words, advice in _SETTINGS.items() if words.search(message)), "")
