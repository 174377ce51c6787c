"""Clients of models, for the tests of what all of them do: how each is served, and how its requests are read."""

import json
import queue
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vendor_clients import VENDOR_CLIENTS

from operad.runtime.models import embedded
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.messages import Message
from operad.runtime.models.settings import ModelSettings
from operad.runtime.testing import ScriptedModel


class ServedClient(ABC):
    """A client, with an endpoint that follows a script.

    Attributes:
        began: Events of a stream that has sent one word of text, and goes on.
        lacks: Names of tests of what the protocol does not have, with the reason.
    """

    began: bytes
    lacks: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def serve(self, script: Any) -> Any:
        """An endpoint, as `ScriptedModel`: a context with `model` and `requests`.

        It insists on reasoning before tool calls coming back unchanged, if a step has `thinking`.
        """

    @abstractmethod
    def texts(self, request: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Role and text of each message with text."""

    @abstractmethod
    def calls(self, request: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        """Id, name and arguments of each tool call."""

    @abstractmethod
    def results(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Text of each result of a tool, by the id of its call."""

    @abstractmethod
    def images(self, request: Mapping[str, Any]) -> list[bytes]:
        """All images."""

    @abstractmethod
    def schema(self, request: Mapping[str, Any]) -> Any:
        """The JSON Schema of the answer; None without one."""

    @abstractmethod
    def max_tokens(self, request: Mapping[str, Any]) -> int | None:
        """Maximum number of tokens of the answer."""

    @abstractmethod
    def thinking(self, request: Mapping[str, Any]) -> str | None:
        """Effort of reasoning, in the word of the protocol."""


def data_in(url: str) -> bytes:
    """The data of a data URL."""
    return b64decode(url.partition(";base64,")[2])


def text_of(content: Any) -> str:
    """The text of a text, or of a list of parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


class ChatCompletionsClient(ServedClient):
    began = b'data: {"choices": [{"index": 0, "delta": {"content": "one "}, "finish_reason": null}]}\n\n'

    def serve(self, script: Any) -> ScriptedModel:
        return ScriptedModel(script, api="chat-completions")

    def texts(self, request):
        found = [
            (message["role"], text_of(message.get("content")))
            for message in request["messages"]
            if message["role"] != "tool"
        ]
        return [each for each in found if each[1]]

    def calls(self, request):
        return [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for message in request["messages"]
            for call in message.get("tool_calls") or ()
        ]

    def results(self, request):
        return {
            message["tool_call_id"]: message["content"] for message in request["messages"] if message["role"] == "tool"
        }

    def images(self, request):
        contents = [message["content"] for message in request["messages"] if isinstance(message["content"], list)]
        return [data_in(part["image_url"]["url"]) for content in contents for part in content if "image_url" in part]

    def schema(self, request):
        return request.get("response_format", {}).get("json_schema", {}).get("schema")

    def max_tokens(self, request):
        return request.get("max_tokens")

    def thinking(self, request):
        return request.get("reasoning_effort")


class ResponsesClient(ServedClient):
    began = (
        b'data: {"type": "response.created", "response": {}}\n\n'
        b'data: {"type": "response.output_text.delta", "output_index": 0, "delta": "one "}\n\n'
    )

    def serve(self, script: Any) -> ScriptedModel:
        return ScriptedModel(script, api="responses")

    def texts(self, request):
        found = []
        for item in self._items(request, "message"):
            content = text_of(item["content"])
            found += [(item["role"], content)] if content else []
        return found

    def calls(self, request):
        return [
            (item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in self._items(request, "function_call")
        ]

    def results(self, request):
        outputs = {item["call_id"]: item["output"] for item in self._items(request, "function_call_output")}
        return {call_id: text_of(output) for call_id, output in outputs.items()}

    def images(self, request):
        contents = [item.get("content") or item.get("output") for item in request["input"]]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        return [data_in(part["image_url"]) for part in parts if part["type"] == "input_image"]

    def schema(self, request):
        return request.get("text", {}).get("format", {}).get("schema")

    def max_tokens(self, request):
        return request.get("max_output_tokens")

    def thinking(self, request):
        return request.get("reasoning", {}).get("effort")

    def _items(self, request, kind):
        return [item for item in request["input"] if item.get("type", "message") == kind]


class EmbeddedClient(ChatCompletionsClient):
    """The model inside this process, which follows no script; its requests are those to its library."""

    def serve(self, script: Any = None) -> Any:
        assert not script
        return EmbeddedRun()


class EmbeddedRun:
    """An embedded model, as `ScriptedModel`.

    Attributes:
        model: The model; its weights are loaded.
        requests: The requests so far.
        ended: What the last piece of each ended request was answered with: True ends the request.
    """

    def __init__(self) -> None:
        self.model, self.requests, self.ended = EmbeddedModel(max_tokens=20), [], queue.SimpleQueue()

    def handle_chat_completions(self, request, put):
        self.requests.append(request)
        answers = [False]
        self._engine.native.handle_chat_completions(request, lambda piece: answers.append(put(piece)) or answers[-1])
        self.ended.put(answers[-1])

    async def __aenter__(self) -> "EmbeddedRun":
        await self.model.complete([Message.user("Hi.")], settings=ModelSettings(max_tokens=1))
        [(self._place, self._engine)] = embedded._engines.items()
        embedded._engines[self._place] = replace(self._engine, native=self)
        return self

    async def __aexit__(self, *_: object) -> None:
        embedded._engines[self._place] = self._engine


CLIENTS: Mapping[str, ServedClient] = {
    "chat-completions": ChatCompletionsClient(),
    "responses": ResponsesClient(),
    **VENDOR_CLIENTS,
}
