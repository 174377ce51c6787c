"""An endpoint that answers from a script, for tests, in two protocols: chat completions and responses."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, dropwhile, takewhile
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, SecretStr

from operad.runtime.models.model import Model
from operad.runtime.testing.plausible import plausible_answer
from operad.runtime.testing.steps import (
    BreakOff,
    CallTools,
    Fail,
    Hang,
    Plausible,
    Raw,
    Recorded,
    Refuse,
    Say,
    Step,
    step_name,
    step_of,
)
from operad.runtime.values.errors import OperadError, describe

if TYPE_CHECKING:
    from typing import Self

    from operad.runtime.models.model import Api


class UnexpectedStepError(OperadError):
    """More was asked than the script holds.

    Example:
        try:
            with ScriptedModel([]) as scripted:
                Workflow(Operator("Greet."), model=scripted.model).run("Ada")
        except UnexpectedStepError as error:
            print(error)  # the model was asked 1 time, 1 more than its script has steps
    """


class LeftoverStepsError(OperadError):
    """Less was asked than the script holds.

    Example:
        try:
            with ScriptedModel([Say("one"), Say("two")]) as scripted:
                Workflow(Operator("Greet."), model=scripted.model).run("Ada")
        except LeftoverStepsError as error:
            print(error)
    """


Request = dict[str, Any]
"""Body of a request: ``messages``, ``tools``, ``response_format``, …; of the responses protocol, ``input``, ``text``, …"""


class ScriptedModel:
    """Model endpoint on this machine that answers from a script.

        with ScriptedModel([CallTools([("search", {"query": "x"})]), Say("found")]) as scripted:
            Workflow(Operator("Check.", tools=[search]), model=scripted.model).run("x")
        assert scripted.requests[1]["messages"][-1]["role"] == "tool"

    Args:
        script: Answers in the order of the requests: steps, texts, or functions that take a request and return a step
            or a text. Alternatively, one such function for all requests; or the script of a recorded case, whose answers
            are given to the operators that got them.
        wants_key: The only API key that the endpoint accepts; None to accept all requests.
        api: Protocol of `model`; the endpoint has both, at ``/chat/completions`` and ``/responses``.

    Attributes:
        requests: The bodies of the requests so far, except those with a wrong key.

    Raises:
        UnexpectedStepError: At the end of the context: there were more requests than steps. The extra requests were
            answered with HTTP 500; an error in the context that resulted is the cause.
        LeftoverStepsError: At the end of the context: there were fewer requests than steps.
        Exception: At the end of the context: the error that a function of the script raised.
        TypeError: The script holds another value; or, at the end of the context, a function returned one.
    """

    def __init__(
        self,
        script: Sequence[Step | BaseModel | Mapping[str, Any] | str | Callable[[Request], Step | BaseModel | str]]
        | Callable[[Request], Step | BaseModel | str],
        *,
        wants_key: str | None = None,
        api: Api | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._wants_key = wants_key
        self._api: Api | None = api
        self._function = script if callable(script) else None
        self._steps = [] if callable(script) else [each if callable(each) else step_of(each) for each in script]
        self._fault: Exception | None = None
        self._unexpected = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    @property
    def base_url(self) -> str:
        """Address of the endpoint, while the context is open."""
        if self._server is None:
            raise OperadError("the scripted model is not running: use it in a with block")
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def model(self) -> Model:
        """Client of this endpoint, without retries, so that a test sees every failure."""
        key = SecretStr(self._wants_key or "scripted")
        return Model(name="scripted", base_url=self.base_url, api_key=key, max_retries=0, api=self._api)

    def __enter__(self) -> Self:
        shared = {"choose": staticmethod(self._choose), "closed": self._closed, "turns": count(1)}
        exchange = cast("type[_Exchange]", type("Exchange", (_Exchange,), shared))
        self._server = _Server(("127.0.0.1", 0), exchange)
        exchange.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        is_about_script = error is None or isinstance(error, Exception)
        if self._fault is not None and is_about_script:
            raise self._fault from error
        if self._unexpected and is_about_script:
            raise UnexpectedStepError(
                f"the model was asked {_times(self.requests)}, {self._unexpected} more than its script has steps"
            ) from error
        if error is not None:
            return
        if self._steps:
            raise LeftoverStepsError(
                f"the model was asked {_times(self.requests)}; left of its script: "
                f"{', '.join(map(step_name, self._steps))}"
            )

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _choose(self, wire: Wire, turn: Turn, authorization: str, request: Request) -> Step:
        """Return the step with which a request is answered; called in the thread of the request."""
        key = authorization.removeprefix("Bearer ")
        if self._wants_key is not None and key != self._wants_key:
            return Fail(401, f"Incorrect API key provided: {key}.", error={"code": "invalid_api_key"})
        with self._lock:
            self.requests.append(request)
            if fault := wire.fault(request, turn):
                return Fail(400, fault)
            if self._function is None and not self._steps:
                self._unexpected += 1
                return Fail(500, f"request {len(self.requests)} is more than the script has steps")
            step = self._function or self._steps.pop(self._next(request))
        try:
            step = step_of(step(request)) if callable(step) else step
            step = step.answer if isinstance(step, Recorded) else step
            return Say(plausible_answer(request)) if isinstance(step, Plausible) else step
        except Exception as error:  # noqa: BLE001 - raised in the test, at the end of the context
            self._fault = error
            return Fail(400, f"the script failed: {describe(error)}")

    def _next(self, request: Request) -> int:
        """Return the number of the step for a request: the first, or the first recorded one that fits."""
        fits = (number for number, step in enumerate(self._steps) if isinstance(step, Recorded) and step.fits(request))
        return next(fits, 0) if isinstance(self._steps[0], Recorded) else 0


def _times(requests: Sequence[Any]) -> str:
    return f"{len(requests)} time" + ("s" if len(requests) != 1 else "")


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024  # with the default of 5, connections are reset when many arrive at once


class _Exchange(BaseHTTPRequestHandler):
    """Handler of one HTTP request."""

    choose: Callable[[Wire, Turn, str, Request], Step]
    closed: threading.Event
    turns: Iterator[int]
    port: int
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        """Answer a request of one of the protocols."""
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:  # the client left, such as a run that was cancelled while it sent the request
            self.close_connection = True
            return
        request = json.loads(body)
        turn = Turn(self.port, next(self.turns))
        with suppress(ConnectionError):  # the client has gone
            if wire := _WIRES.get(self.path):
                step = self.choose(wire, turn, self.headers.get("Authorization", ""), request)
                self._play(step, wire, turn, request)
            else:
                self._fail(Fail(404, f"there is no {self.path} here"))

    def _play(self, step: Step, wire: Wire, turn: Turn, request: Request) -> None:
        """Answer a request with a step."""
        if isinstance(step, Hang):
            self.closed.wait()
            self.close_connection = True
        elif isinstance(step, Fail):
            self._fail(step)
        elif isinstance(step, Raw):
            self._send(200, step.body, step.content_type)
        elif isinstance(step, BreakOff):
            said = wire.events(Say(step.text[: step.after_chars]), request, turn)
            self._stream([*takewhile(wire.is_piece, dropwhile(lambda event: not wire.is_piece(event), said))], None)
        elif isinstance(step, (Say, CallTools, Refuse)):
            if request.get("stream"):
                self._stream(wire.events(step, request, turn), wire.last)
            else:
                self._send(200, json.dumps(wire.body(step, request, turn)).encode(), "application/json")

    def _fail(self, step: Fail) -> None:
        error = {"message": step.message, **step.error}
        self._send(step.status, json.dumps({"error": error}).encode(), "application/json", step.headers)

    def _send(self, status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": content_type, "Connection": "close"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Iterable[_Event], last: str | None) -> None:
        """Send server-sent events.

        Args:
            last: Data of the last one; empty for none. None to break off.
        """
        self.send_response(200)
        for name, value in {
            "Content-Type": "text/event-stream",
            "Transfer-Encoding": "chunked",
            "Connection": "close",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        for event in events:
            self._event(json.dumps(event))
        if last is not None:
            if last:
                self._event(last)
            self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))


_Answer = Say | CallTools | Refuse

_Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn of an endpoint.

    Attributes:
        endpoint: Number of the endpoint: it checks its own signatures alone.
        number: Number of the request, from 1.
    """

    endpoint: int
    number: int

    def is_signed(self, call_id: Any) -> bool:
        """Return True if the endpoint made a call after reasoning, which must come back with it."""
        return str(call_id).startswith(f"signed_{self.endpoint}_")


@dataclass(frozen=True, slots=True)
class Wire:
    """Protocol of an endpoint.

    Attributes:
        events: Function of an answer, a request and the `Turn`, that yields the events of a streamed answer.
        body: The same for an answer that is not streamed.
        is_piece: Function that returns True if an event holds a piece of the answer.
        fault: Function of a request and the `Turn`, that returns what the request lacks of earlier reasoning; empty if it
            lacks nothing.
        last: Data of the event that ends a stream; empty for none.
    """

    events: Callable[[_Answer, Mapping[str, Any], Turn], Iterator[_Event]]
    body: Callable[[_Answer, Mapping[str, Any], Turn], _Event]
    is_piece: Callable[[_Event], bool]
    fault: Callable[[Mapping[str, Any], Turn], str]
    last: str = ""


def pieces(text: str) -> list[str]:
    """Return the words of a text, each with the space after it."""
    return re.findall(r"\S+\s*|\s+", text)


def _thinking_of(answer: _Answer) -> str:
    """Return the reasoning of an answer."""
    return "" if isinstance(answer, Refuse) else answer.thinking


def _calls_of(answer: _Answer, turn: Turn) -> list[tuple[str, str, str]]:
    """Return the tool calls of an answer, each with id, name and arguments."""
    if not isinstance(answer, CallTools):
        return []
    prefix = f"signed_{turn.endpoint}_{turn.number}" if answer.thinking else "call"
    return [
        (f"{prefix}_{index}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for index, (name, arguments) in enumerate(answer.pairs)
    ]


def _signature(thinking: str) -> str:
    """Return the signature of reasoning."""
    return hashlib.sha256(thinking.encode()).hexdigest()[:16]


def _tokens_of(answer: _Answer, prompt: str) -> tuple[int, int]:
    """Return the number of tokens of a prompt and of an answer: the number of words."""
    written = f"{_thinking_of(answer)} {answer.text} {' '.join(call[2] for call in _calls_of(answer, Turn(0, 0)))}"
    return len(prompt.split()), len(written.split())


def _calls(answer: _Answer, turn: Turn) -> list[dict[str, Any]]:
    signed = {"extra_content": {"signature": _signature(_thinking_of(answer))}} if _thinking_of(answer) else {}
    return [
        {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **signed}
        for index, (id_, name, arguments) in enumerate(_calls_of(answer, turn))
    ]


def _usage(answer: _Answer, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of an answer."""
    if isinstance(answer, Refuse) or answer.usage is None:
        prompt = " ".join(str(message.get("content") or "") for message in request.get("messages") or ())
        read, written = _tokens_of(answer, prompt)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_written_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _finish_reason(answer: _Answer) -> str:
    return (
        "tool_calls"
        if isinstance(answer, CallTools)
        else "stop"
        if isinstance(answer, Refuse)
        else answer.finish_reason
    )


def _body(answer: _Answer, request: Mapping[str, Any], turn: Turn) -> _Event:
    """Return an answer as the body of a response that is not streamed."""
    text: dict[str, Any] = {"content": answer.text}
    if isinstance(answer, Refuse):
        text = {"content": None, "refusal": answer.text}
    thinking = {"reasoning_content": _thinking_of(answer)} if _thinking_of(answer) else {}
    message = {"role": "assistant", **text, **thinking, "tool_calls": _calls(answer, turn) or None}
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
    return {**_common_fields(request, "chat.completion"), "choices": [choice], "usage": _usage(answer, request)}


def _chunks(answer: _Answer, request: Mapping[str, Any], turn: Turn) -> Iterator[_Event]:
    """Yield an answer as the chunks of a streamed response."""
    head = _common_fields(request, "chat.completion.chunk")
    field = "refusal" if isinstance(answer, Refuse) else "content"
    deltas: list[dict[str, Any]] = [{"reasoning_content": piece} for piece in pieces(_thinking_of(answer))]
    deltas += [{field: piece} for piece in pieces(answer.text)]
    if calls := _calls(answer, turn):
        deltas.append({"tool_calls": calls})
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish_reason(answer)}]}
    options: Any = request.get("stream_options") or {}
    if options.get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(answer, request)}


def _common_fields(request: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the fields that every response and chunk has."""
    return {"id": "scripted", "object": kind, "created": 0, "model": request.get("model", "")}


def _is_piece(chunk: _Event) -> bool:
    return bool(chunk["choices"] and chunk["choices"][0]["delta"])


def _fault(request: Mapping[str, Any], turn: Turn) -> str:
    """Return the fault of a request that does not return the reasoning before a tool call unchanged."""
    for message in request.get("messages") or ():
        for call in message.get("tool_calls") or ():
            further: Any = call.get("extra_content") or {}
            expected = _signature(message.get("reasoning_content") or "")
            if turn.is_signed(call["id"]) and further.get("signature") != expected:
                return (
                    f"the reasoning_content of the message with the tool call {call['id']}, and the extra_content of the "
                    "call, must come back unchanged"
                )
    return ""


_CHAT_COMPLETIONS = Wire(events=_chunks, body=_body, is_piece=_is_piece, fault=_fault, last="[DONE]")


_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def _items(answer: _Answer, request: Mapping[str, Any], turn: Turn) -> list[dict[str, Any]]:
    """Return the output of a response."""
    items: list[dict[str, Any]] = []
    if thinking := _thinking_of(answer):
        is_asked = "reasoning.encrypted_content" in (request.get("include") or ())
        items.append(
            {
                "id": f"rs_{turn.number}",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": thinking}],
                "encrypted_content": _signature(thinking) if is_asked else None,
            }
        )
    if answer.text:
        content: dict[str, Any] = {"type": "output_text", "text": answer.text, "annotations": []}
        if isinstance(answer, Refuse):
            content = {"type": "refusal", "refusal": answer.text}
        message = {"id": f"msg_{turn.number}", "type": "message", "role": "assistant", "content": [content]}
        items.append({**message, "status": "completed"})
    for index, (call_id, name, arguments) in enumerate(_calls_of(answer, turn)):
        call = {"id": f"fc_{turn.number}_{index}", "type": "function_call", "call_id": call_id, "name": name}
        items.append({**call, "arguments": arguments, "status": "completed"})
    return items


def _response(answer: _Answer, request: Mapping[str, Any], turn: Turn, status: str, **further: Any) -> dict[str, Any]:
    return {
        "id": f"resp_{turn.number}",
        "object": "response",
        "created_at": 0,
        "model": request.get("model", ""),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools", []),
        "output": [],
        "usage": None,
        **further,
    }


def _ended(answer: _Answer, request: Mapping[str, Any], turn: Turn) -> dict[str, Any]:
    reason = answer.finish_reason if isinstance(answer, Say) else "stop"
    further: dict[str, Any] = {"output": _items(answer, request, turn), "usage": _response_usage(answer, request)}
    if reason in _INCOMPLETE:
        return _response(
            answer, request, turn, "incomplete", incomplete_details={"reason": _INCOMPLETE[reason]}, **further
        )
    if reason == "error":
        error = {"code": "server_error", "message": "the model failed"}
        return _response(answer, request, turn, "failed", error=error, **further)
    return _response(answer, request, turn, "completed", **further)


def _events(answer: _Answer, request: Mapping[str, Any], turn: Turn) -> Iterator[_Event]:
    """Yield an answer as the events of a streamed response."""
    numbers = count()

    def event(kind: str, **fields: Any) -> _Event:
        return {"type": kind, "sequence_number": next(numbers), **fields}

    yield event("response.created", response=_response(answer, request, turn, "in_progress"))
    for index, item in enumerate(_items(answer, request, turn)):
        place: dict[str, Any] = {"item_id": item["id"], "output_index": index}
        empty = {
            name: type(value)() if name in ("summary", "content", "arguments") else value
            for name, value in item.items()
        }
        yield event("response.output_item.added", output_index=index, item={**empty, "status": "in_progress"})
        if item["type"] == "reasoning":
            place["summary_index"] = 0
            [part] = item["summary"]
            yield event("response.reasoning_summary_part.added", **place, part={**part, "text": ""})
            for piece in pieces(part["text"]):
                yield event("response.reasoning_summary_text.delta", **place, delta=piece)
            yield event("response.reasoning_summary_part.done", **place, part=part)
        elif item["type"] == "message":
            place["content_index"] = 0
            [part] = item["content"]
            field = "refusal" if part["type"] == "refusal" else "text"
            yield event("response.content_part.added", **place, part={**part, field: ""})
            for piece in pieces(part[field]):
                yield event(f"response.{'output_text' if field == 'text' else field}.delta", **place, delta=piece)
            yield event("response.content_part.done", **place, part=part)
        else:
            for piece in pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
        yield event("response.output_item.done", output_index=index, item=item)
    ended = _ended(answer, request, turn)
    yield event(f"response.{ended['status']}", response=ended)


def _response_usage(answer: _Answer, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of an answer."""
    if isinstance(answer, Refuse) or answer.usage is None:
        prompt = " ".join(str(item.get("content") or item.get("output") or "") for item in _input(request))
        read, written = _tokens_of(answer, prompt)
        cached = cache_written = reasoning = 0
    else:
        usage = answer.usage
        read, written, cached = usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens
        cache_written, reasoning = usage.cache_written_tokens, usage.reasoning_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": cache_written},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": read + written,
    }


def _input(request: Mapping[str, Any]) -> Sequence[Any]:
    given: Any = request.get("input") or []
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _response_fault(request: Mapping[str, Any], turn: Turn) -> str:
    """Return the fault of a request that does not return the reasoning before a tool call unchanged."""
    reasoning: Any = {}
    for item in _input(request):
        kind = item.get("type", "message")
        if kind == "reasoning":
            reasoning = item
        elif kind == "function_call" and turn.is_signed(item["call_id"]):
            thinking = "".join(part["text"] for part in reasoning.get("summary") or ())
            if not reasoning:
                return f"item {item.get('id')!r} of type 'function_call' was provided without its required 'reasoning' item"
            if reasoning.get("encrypted_content") != _signature(thinking):
                return f"the encrypted content of item {reasoning.get('id')!r} could not be verified"
        elif kind != "function_call" and item.get("role") != "assistant":
            reasoning = {}
    return ""


_RESPONSES = Wire(
    events=_events, body=_ended, is_piece=lambda event: event["type"].endswith(".delta"), fault=_response_fault
)

_WIRES = {"/v1/chat/completions": _CHAT_COMPLETIONS, "/v1/responses": _RESPONSES}
