"""Endpoints of conformance_models.py, on this machine: each refuses what the published rules of its vendor forbid."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from model_clients import CLIENTS
from vendor_endpoints import KEY, AnthropicEndpoint, GoogleEndpoint, RefusedError, need

from operad.testing import CallTools, Fail, Raw, ScriptedModel


@dataclass
class Served:
    """An endpoint that follows a script.

    Attributes:
        url: Its address.
        requests: The bodies of the requests.
        times: Times of the requests.
        refused: Rules that requests broke.
    """

    url: str = ""
    requests: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Endpoint:
    """A kind of endpoint.

    Attributes:
        name: Its name in the table.
        kind: Its name for the libraries.
        api: Its protocol.
        model: Name of its model.
        operad: Name of the model in Operad.
        rules: Function that refuses a request that breaks a rule.
        calls: Function that returns the step that answers with tool calls in the endpoint's form.
        lacks: Features that it does not have.
    """

    name: str
    kind: str
    api: str
    model: str
    operad: str
    rules: Callable[[Any], None] = lambda request: None
    calls: Callable[[CallTools], Any] = lambda step: step
    lacks: frozenset[str] = frozenset()

    @property
    def reader(self) -> Any:
        """Reader of its requests; see `ServedClient`."""
        return CLIENTS["chat-completions" if self.api == "mistral" else self.api]

    @contextmanager
    def serve(self, script: Sequence[Any]) -> Generator[Served]:
        """Serve the steps of a script: a step may be a function of the request."""
        served, steps = Served(), [*script]

        def answer(request: Any) -> Any:
            served.times.append(time.monotonic())
            try:
                self.rules(request)
                step = steps.pop(0) if steps else Fail(400, "the conversation is at its end")
                step = step(request) if callable(step) else step
            except RefusedError as refused:
                served.refused.append(str(refused))
                return refused.fail
            return self.calls(step) if isinstance(step, CallTools) else step

        if kind := VENDORS.get(self.api):
            with kind(answer, refused=served.refused) as vendor:
                served.url, served.requests = str(vendor.model.base_url), vendor.requests
                yield served
            return
        with ScriptedModel(answer, wants_key=KEY) as scripted:
            served.url, served.requests = scripted.base_url, scripted.requests
            yield served
        if len(served.requests) > len(served.times):  # reasoning did not come back
            served.refused.append("a call came back without its reasoning")

    @contextmanager
    def leave(self) -> Generator[tuple[str, list[float]]]:
        """Serve the beginning of an answer; yield the address, and the times at which clients left."""
        left: list[float] = []

        class Exchange(StreamRequestHandler):
            def handle(self) -> None:
                self.request.recv(2**20)
                self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + began)
                while self.request.recv(2**20):
                    pass
                left.append(time.monotonic())

        began = BEGAN if self.api in ("chat-completions", "mistral") else self.reader.began
        with ThreadingTCPServer(("127.0.0.1", 0), Exchange) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_address[1]}{'' if self.api in PLAIN else '/v1'}", left
            server.shutdown()


def vendor(kind: Any) -> Any:
    """Return an endpoint of the tests that also notes the rules that requests broke."""

    class Told(kind):
        def __init__(self, script: Any, refused: list[str]) -> None:
            super().__init__(script)
            self.refused = refused

        def check(self, path: str, headers: Any, request: Any) -> None:
            try:
                super().check(path, headers, request)
            except RefusedError as error:
                self.refused.append(str(error))
                raise

    return Told


VENDORS = {"anthropic": vendor(AnthropicEndpoint), "google": vendor(GoogleEndpoint)}
PLAIN = (*VENDORS, "mistral")
"""Protocols whose clients add the version to the address."""


def chunks(*deltas: Any, finish: str = "tool_calls") -> Raw:
    """Deltas of chat completions as a step."""
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {"content": ""}, "finish_reason": finish})
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    said = "".join(f"data: {json.dumps({**head, 'choices': [choice]})}\n\n" for choice in choices)
    return Raw(said.encode() + b"data: [DONE]\n\n", "text/event-stream")


BEGAN = chunks({"role": "assistant", "content": "one "}, finish="").body.partition(b"\n\n")[0] + b"\n\n"


NUMBERS = count()
"""Numbers for the ids of calls."""


def calls(step: CallTools, id_form: str, reasoning: Callable[[str], Any]) -> Raw:
    """Tool calls after reasoning in the form of a vendor."""
    marked = 1 if step.thinking else 0
    found = [
        {
            "index": n,
            "id": id_form.format(next(NUMBERS) % 100, marked),
            "type": "function",
            "function": {"name": name, "arguments": text},
        }
        for n, (name, arguments) in enumerate(step.pairs)
        for text in [arguments if isinstance(arguments, str) else json.dumps(arguments)]
    ]
    thought = [reasoning(step.thinking)] if step.thinking else []
    return chunks(*({"role": "assistant", **each} for each in thought), {"role": "assistant", "tool_calls": found})


def strict(schema: Any) -> None:
    """Refuse a schema that OpenAI does not enforce."""
    if isinstance(schema, list):
        for each in schema:
            strict(each)
    if isinstance(schema, dict):
        if "properties" in schema or schema.get("type") == "object":
            need(schema.get("additionalProperties") is False, "'additionalProperties' must be false")
            need(
                {*schema.get("required", ())} == {*schema.get("properties", ())}, "'required' must name all properties"
            )
        need("oneOf" not in schema, "'oneOf' is not permitted")
        for each in schema.values():
            strict(each)


def strict_root(schema: Any) -> None:
    need(schema.get("type") == "object" and "anyOf" not in schema, "schema must have an object at its root")
    strict(schema)


def responses_rules(request: Any) -> None:
    """Check the rules of a reasoning model of OpenAI, without storage."""
    need(not {"temperature", "top_p"} & request.keys(), "Unsupported parameter: 'temperature' with this model")
    need(not {"seed", "stop", "max_tokens"} & request.keys(), "Unknown parameter")
    for tool in request.get("tools") or ():
        if tool.get("strict"):
            strict_root(tool["parameters"])
    form = request.get("text", {}).get("format", {})
    if form.get("strict"):
        strict_root(form["schema"])
    items = request["input"] if isinstance(request["input"], list) else []
    need(not any(item.get("type") == "item_reference" for item in items), "Item not found: nothing is stored")
    asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
    told = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    need(sorted(asked) == sorted(told), "No tool output found for function call")


def chat_rules(request: Any) -> None:
    """Check that every call has a text as its id, and its result after it."""
    open_calls: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            need(message["tool_call_id"] in open_calls, "messages with role 'tool' must follow their call")
            open_calls.remove(message["tool_call_id"])
        else:
            need(not open_calls, "an assistant message with 'tool_calls' must be followed by tool messages")
        open_calls += [call["id"] for call in message.get("tool_calls") or ()]
        need(all(isinstance(each, str) for each in open_calls), "tool_calls[0].id: Input should be a valid string")
    need(not open_calls, "an assistant message with 'tool_calls' must be followed by tool messages")


def openai_rules(request: Any) -> None:
    """Check the rules of a model that does not reason."""
    chat_rules(request)
    need("reasoning_effort" not in request, "Unrecognized request argument supplied: reasoning_effort")
    for message in request["messages"]:
        is_text = message["role"] != "tool" or "image_url" not in json.dumps(message["content"])
        need(is_text, "Image URLs are only allowed for messages with role 'user'")
    for tool in request.get("tools") or ():
        if tool["function"].get("strict"):
            strict_root(tool["function"]["parameters"])
    form = (request.get("response_format") or {}).get("json_schema", {})
    if form.get("strict"):
        strict_root(form["schema"])


def deepseek_rules(request: Any) -> None:
    """Check the rules of the thinking mode; the endpoint enforces no JSON Schemas."""
    chat_rules(request)
    kind = (request.get("response_format") or {}).get("type", "text")
    need(kind != "json_schema", "This response_format type is unavailable now")
    for message in request["messages"]:
        for call in message.get("tool_calls") or ():
            thought = message.get("reasoning_content")
            need(
                not call["id"].endswith("1") or thought,
                "The reasoning_content in the thinking mode must be passed back",
            )


MISTRAL_FIELDS = set(
    "model messages tools tool_choice temperature top_p max_tokens stream stream_options stop random_seed metadata "
    "response_format presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode reasoning_effort "
    "safe_prompt prompt_cache_key guardrails".split()
)


def mistral_rules(request: Any) -> None:
    """Check the rules of Mistral, which sends usage without being asked."""
    need(request.keys() <= MISTRAL_FIELDS, f"Extra inputs are not permitted: {sorted(request.keys() - MISTRAL_FIELDS)}")
    for message in request["messages"]:
        for call in message.get("tool_calls") or ():
            need(re.fullmatch("[a-zA-Z0-9]{9}", call["id"]), "Tool call id must be a-z, A-Z, 0-9, with a length of 9")
    local_rules(request)
    request["stream_options"] = {"include_usage": True}


def local_rules(request: Any) -> None:
    """Check the rules of servers whose templates read the arguments of earlier calls."""
    chat_rules(request)
    for message in request["messages"]:
        for call in message.get("tool_calls") or ():
            arguments = call["function"]["arguments"]
            try:
                made = arguments if isinstance(arguments, dict) else json.loads(arguments)
            except ValueError:
                made = None
            need(isinstance(made, dict), "arguments of an earlier call must be a JSON object")


def parts(thinking: str) -> Any:
    return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": thinking}]}]}


def in_form(id_form: str, reasoning: Callable[[str], Any]) -> Callable[[CallTools], Any]:
    return lambda step: calls(step, id_form, reasoning)


THINKING = frozenset(
    {
        "thinking with tools, three turns",
        "second question after thinking with tools",
        "typed answer after thinking with a tool",
    }
)

ENDPOINTS = (
    Endpoint("OpenAI responses", "responses", "responses", "gpt-5.6", "gpt-5.6", responses_rules),
    Endpoint(
        "OpenAI chat",
        "openai",
        "chat-completions",
        "gpt-4.1",
        "gpt-4.1",
        openai_rules,
        lacks=THINKING,
    ),
    Endpoint(
        "DeepSeek",
        "deepseek",
        "chat-completions",
        "deepseek-v4-pro",
        "deepseek:deepseek-v4-pro",
        deepseek_rules,
        in_form("call_{}{}", lambda thinking: {"reasoning_content": thinking}),
        frozenset({"image", "image of a tool"}),
    ),
    Endpoint(
        "Google",
        "google",
        "google",
        "gemini-3-pro-preview",
        "google:gemini-3-pro-preview",
        lacks=frozenset({"refusal", "broken arguments"}),
    ),
    *(
        Endpoint(
            f"Claude {model.title()}",
            "anthropic",
            "anthropic",
            f"claude-{model.replace(' ', '-').replace('.', '-')}",
            f"anthropic:claude-{model.replace(' ', '-').replace('.', '-')}",
            lacks=frozenset({"filter"}),  # what a filter stops is a refusal
        )
        for model in ("sonnet 4.6", "opus 5.5")
    ),
    Endpoint(
        "Mistral",
        "mistral",
        "mistral",
        "mistral-large-latest",
        "mistral:mistral-large-latest",
        mistral_rules,
        in_form("abcdef{:02}{}", parts),
        frozenset({"refusal"}),
    ),
    Endpoint(
        "local server",
        "local",
        "chat-completions",
        "qwen3-vl",
        "qwen3-vl",
        local_rules,
        in_form("call-{}{}", lambda thinking: {"reasoning": thinking}),
    ),
)
