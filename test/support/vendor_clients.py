"""Readers of requests to vendors' own protocols, for the tests of what all clients do; see `ServedClient`."""

import json
from base64 import b64decode, urlsafe_b64decode
from itertools import takewhile
from typing import ClassVar

from vendor_endpoints import AnthropicEndpoint, GoogleEndpoint

from operad.runtime.testing import Say


def schema_described(texts):
    """The JSON Schema at the end of a conversation; None without one."""
    _, told, schema = texts[-1][1].rpartition("JSON Schema:\n")
    return json.loads(schema) if told else None


SETTINGS = "see the tests of vendors"


class AnthropicClient:
    """Reader of requests to Anthropic; see `ServedClient`."""

    lacks: ClassVar = {
        "test_a_content_filter_is_an_error_that_no_retry_mends": "what a filter stops is a refusal",
        "test_settings_and_parameters_reach_the_endpoint": SETTINGS,
    }

    began = b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        for event in takewhile(
            lambda event: event["type"] != "content_block_stop",
            type("Made", (AnthropicEndpoint,), {"dropped": ()})([]).events(Say("one "), {"model": "m", "messages": []}),
        )
    )
    serve = AnthropicEndpoint

    def texts(self, request):
        system = request.get("system") or []
        found = [("system", part["text"]) for part in ([{"text": system}] if isinstance(system, str) else system)]
        for message, block in self._blocks(request):
            if block["type"] == "text":
                found.append((message["role"], block["text"]))
        return found

    def calls(self, request):
        return [(b["id"], b["name"], b["input"]) for _, b in self._blocks(request) if b["type"] == "tool_use"]

    def results(self, request):
        return {
            block["tool_use_id"]: "".join(part.get("text", "") for part in block["content"])
            for _, block in self._blocks(request)
            if block["type"] == "tool_result"
        }

    def images(self, request):
        parts = [block for _, block in self._blocks(request)]
        parts += [part for block in parts if block["type"] == "tool_result" for part in block["content"]]
        return [b64decode(part["source"]["data"]) for part in parts if part["type"] == "image"]

    def schema(self, request):
        form = request.get("output_config", {}).get("format", {})
        return form.get("schema") or schema_described(self.texts(request))

    def max_tokens(self, request):
        return request["max_tokens"]

    def thinking(self, request):
        return request.get("output_config", {}).get("effort")

    def _blocks(self, request):
        return [(message, block) for message in request["messages"] for block in message["content"]]


class GoogleClient:
    """Reader of requests to Google; see `ServedClient`."""

    lacks: ClassVar = {
        "test_a_refusal_is_an_error_with_its_words": "the protocol has no refusals",
        "test_arguments_that_are_no_json_go_back_as_an_empty_object": "arguments are objects in the protocol",
        "test_cached_and_reasoning_tokens_are_counted_at_their_price": "tokens written to the cache are not reported",
        "test_settings_and_parameters_reach_the_endpoint": SETTINGS,
    }

    began = b'data: {"candidates": [{"content": {"role": "model", "parts": [{"text": "one "}]}, "index": 0}]}\n\n'
    serve = GoogleEndpoint

    def texts(self, request):
        system = [("system", part["text"]) for part in request.get("systemInstruction", {}).get("parts", ())]
        roles = {"model": "assistant", "user": "user"}
        return system + [
            (roles[content["role"]], part["text"])
            for content, part in self._parts(request)
            if "text" in part and not part.get("thought")
        ]

    def calls(self, request):
        calls = [part["functionCall"] for _, part in self._parts(request) if "functionCall" in part]
        return [(call["id"], call["name"], call["args"]) for call in calls]

    def results(self, request):
        found = [part["functionResponse"] for _, part in self._parts(request) if "functionResponse" in part]
        return {each["id"]: "".join(map(str, each["response"].values())) for each in found}

    def images(self, request):
        parts = [part for _, part in self._parts(request)]
        parts += [each for part in parts for each in part.get("functionResponse", {}).get("parts", ())]
        blobs = [part.get("inlineData") or part.get("inline_data") for part in parts]
        return [urlsafe_b64decode(blob["data"]) for blob in blobs if blob]

    def schema(self, request):
        return request.get("generationConfig", {}).get("responseJsonSchema") or schema_described(self.texts(request))

    def max_tokens(self, request):
        return request.get("generationConfig", {}).get("maxOutputTokens")

    def thinking(self, request):
        level = request.get("generationConfig", {}).get("thinkingConfig", {}).get("thinking_level")
        return level and level.lower()

    def _parts(self, request):
        return [(content, part) for content in request["contents"] for part in content["parts"]]


VENDOR_CLIENTS = {"anthropic": AnthropicClient(), "google": GoogleClient()}
