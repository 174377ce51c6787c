"""An endpoint that answers from a script, for tests."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, SecretStr

from operad.runtime.models.model import Model
from operad.runtime.testing.plausible import plausible_answer
from operad.runtime.values.errors import OperadError, describe

if TYPE_CHECKING:
    from typing_extensions import Self


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


class Step:
    """Base class of the steps of a script.

    Example:
        def answer(request: dict) -> Step:
            return Plausible() if request.get("response_format") else Say("done")

        with ScriptedModel(answer) as scripted:
            print(Workflow(Operator("Greet."), model=scripted.model).run("Ada").text)  # done
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Say(Step):
    """Step that answers with a text.

        with ScriptedModel([Say("Good morning."), Say("cut o", finish_reason="length")]) as scripted:
            print(Workflow(Operator("Greet."), model=scripted.model).run("Ada").text)
            print(Workflow(Operator("Greet."), model=scripted.model).run("Ada").text)

    Attributes:
        text: The text, which is streamed word by word.
        finish_reason: Reason for the end of the text; ``length`` if it was cut off.
    """

    text: str
    finish_reason: str = "stop"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Say(…): expected a text, got {self.text!r:.200}")


@dataclass(frozen=True, slots=True)
class CallTools(Step):
    """Step that calls tools, given as pairs of a name and arguments, or as a dict; arguments as text may be invalid JSON.

    Example:
        with ScriptedModel([CallTools({"search": {"claim": "x"}}), Say("done")]) as scripted:
            Workflow(Operator("Check.", tools=[search]), model=scripted.model).run("x")

    Raises:
        TypeError: The calls have another form.
    """

    calls: Sequence[tuple[str, Mapping[str, Any] | str]] | Mapping[str, Mapping[str, Any] | str]
    text: str = ""

    def __post_init__(self) -> None:
        calls: Any = self.pairs
        if not isinstance(calls, list | tuple) or not all(map(_is_call, cast("Sequence[Any]", calls))):
            wanted = "CallTools([('search', {'claim': 'x'})]) or CallTools({'search': {'claim': 'x'}})"
            raise TypeError(f"expected names of tools with their arguments, such as {wanted}; got {self.calls!r:.200}")

    @property
    def pairs(self) -> Sequence[tuple[str, Mapping[str, Any] | str]]:
        """The calls as pairs of a name and arguments."""
        return [*self.calls.items()] if isinstance(self.calls, Mapping) else self.calls


@dataclass(frozen=True, slots=True)
class Fail(Step):
    """Step that answers with an HTTP error.

    Example:
        with ScriptedModel([Fail(429, headers={"retry-after": "0"}), Say("done")]) as scripted:
            model = scripted.model.model_copy(update={"max_retries": 1})
            print(Workflow(Operator("Greet."), model=model).run("Ada").text)  # done
    """

    status: int
    message: str = "scripted failure"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    error: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the error object, such as ``type`` and ``code``."""


@dataclass(frozen=True, slots=True)
class Hang(Step):
    """Step that accepts the request and sends no answer until the model is closed.

    Example:
        with ScriptedModel([Hang()]) as scripted:
            model = scripted.model.model_copy(update={"timeout": 0.1})
            try:
                Workflow(Operator("Greet."), model=model).run("Ada")
            except OperatorError as error:
                print(error)
    """


@dataclass(frozen=True, slots=True)
class BreakOff(Step):
    """Step that closes the connection after the first `after_chars` characters of `text`.

    Example:
        with ScriptedModel([BreakOff(after_chars=5)]) as scripted:
            try:
                Workflow(Operator("Greet."), model=scripted.model).run("Ada")
            except OperatorError as error:
                print(error)
    """

    after_chars: int
    text: str = "an answer that breaks off"


@dataclass(frozen=True, slots=True)
class Plausible(Step):
    """Step that answers with a value that fits the JSON Schema of the request, or with a word if there is no schema.

    Example:
        with ScriptedModel(lambda request: Plausible()) as scripted:
            print(Workflow(facts, model=scripted.model).run("hello").output)  # claims=['text']
    """


@dataclass(frozen=True, slots=True)
class Raw(Step):
    """Step that sends the given bytes as the response.

    Example:
        with ScriptedModel([Raw(b"<html>502 Bad Gateway</html>")]) as scripted:
            try:
                Workflow(Operator("Greet."), model=scripted.model).run("Ada")
            except OperatorError as error:
                print(error)
    """

    body: bytes
    content_type: str = "text/html"


Request = dict[str, Any]
"""Body of a chat-completions request: ``messages``, ``tools``, ``response_format``, …"""


class ScriptedModel:
    """Model endpoint on this machine that answers from a script.

        with ScriptedModel([CallTools([("search", {"query": "x"})]), Say("found")]) as scripted:
            Workflow(Operator("Check.", tools=[search]), model=scripted.model).run("x")
        assert scripted.requests[1]["messages"][-1]["role"] == "tool"

    Args:
        script: Answers in the order of the requests: steps, texts, or functions that take a request and return a step
            or a text. Alternatively, one such function for all requests.
        wants_key: The only API key that the endpoint accepts; None to accept all requests.

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
        script: Sequence[Step | BaseModel | str | Callable[[Request], Step | BaseModel | str]]
        | Callable[[Request], Step | BaseModel | str],
        *,
        wants_key: str | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._wants_key = wants_key
        self._function = script if callable(script) else None
        self._steps = [] if callable(script) else [each if callable(each) else _step_of(each) for each in script]
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
        return Model(name="scripted", base_url=self.base_url, api_key=key, max_retries=0)

    def __enter__(self) -> Self:
        exchange = type("Exchange", (_Exchange,), {"choose": staticmethod(self._choose), "closed": self._closed})
        self._server = _Server(("127.0.0.1", 0), exchange)
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
                f"{', '.join(map(_step_name, self._steps))}"
            )

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _choose(self, path: str, authorization: str, request: Request) -> Step:
        """Return the step with which a request is answered; called in the thread of the request."""
        key = authorization.removeprefix("Bearer ")
        if self._wants_key is not None and key != self._wants_key:
            return Fail(401, f"Incorrect API key provided: {key}.", error={"code": "invalid_api_key"})
        if path != "/v1/chat/completions":
            return Fail(404, f"there is no {path} here")
        with self._lock:
            self.requests.append(request)
            if self._function is None and not self._steps:
                self._unexpected += 1
                return Fail(500, f"request {len(self.requests)} is more than the script has steps")
            step = self._function or self._steps.pop(0)
        try:
            step = _step_of(step(request)) if callable(step) else step
            return Say(plausible_answer(request)) if isinstance(step, Plausible) else step
        except Exception as error:  # noqa: BLE001 - raised in the test, at the end of the context
            self._fault = error
            return Fail(400, f"the script failed: {describe(error)}")


def _step_of(value: Step | BaseModel | str) -> Step:
    """Return a step unchanged, and a text or a pydantic model as the step that says it.

    Raises:
        TypeError: The value is none of these.
    """
    if isinstance(value, Step):
        return value
    if isinstance(value, str | BaseModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        return Say(value if isinstance(value, str) else value.model_dump_json())
    raise TypeError(f"a script holds steps, such as Say('…'), texts, pydantic models and functions; got {value!r:.200}")


def _is_call(pair: Any) -> bool:
    match pair:
        case str(), str() | Mapping():
            return True
        case _:
            return False


def _times(requests: Sequence[Any]) -> str:
    return f"{len(requests)} time" + ("s" if len(requests) != 1 else "")


def _step_name(step: Any) -> str:
    """Return the description of an unused step, for an error."""
    return getattr(step, "__name__", "function") if callable(step) else repr(step)


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024  # with the default of 5, connections are reset when many arrive at once


class _Exchange(BaseHTTPRequestHandler):
    """Handler of one HTTP request."""

    choose: Callable[[str, str, Request], Step]
    closed: threading.Event
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        """Answer a chat-completions request."""
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:  # the client left, such as a run that was cancelled while it sent the request
            self.close_connection = True
            return
        request = json.loads(body)
        step = self.choose(self.path, self.headers.get("Authorization", ""), request)
        with suppress(ConnectionError):  # the client has gone
            self._play(step, request)

    def _play(self, step: Step, request: Request) -> None:
        """Answer a request with a step."""
        if isinstance(step, Hang):
            self.closed.wait()
            self.close_connection = True
        elif isinstance(step, Fail):
            error = {"message": step.message, **step.error}
            self._send(step.status, json.dumps({"error": error}).encode(), "application/json", step.headers)
        elif isinstance(step, Raw):
            self._send(200, step.body, step.content_type)
        elif isinstance(step, BreakOff):
            self._stream(_chunks(Say(step.text[: step.after_chars]), request), broken=True)
        elif isinstance(step, (Say, CallTools)):
            if request.get("stream"):
                self._stream(_chunks(step, request))
            else:
                self._send(200, json.dumps(_completion(step, request)).encode(), "application/json")

    def _send(self, status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": content_type, "Connection": "close"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, chunks: Iterator[Mapping[str, Any]], broken: bool = False) -> None:
        """Send chunks as server-sent events; if `broken`, stop before the last chunk."""
        self.send_response(200)
        for name, value in {
            "Content-Type": "text/event-stream",
            "Transfer-Encoding": "chunked",
            "Connection": "close",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        for chunk in chunks:
            if broken and not (chunk["choices"] and chunk["choices"][0]["delta"]):
                return
            self._event(json.dumps(chunk))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))


def _calls(step: Say | CallTools) -> list[dict[str, Any]]:
    calls = step.pairs if isinstance(step, CallTools) else ()
    return [
        {
            "index": index,
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(calls)
    ]


def _usage(step: Say | CallTools, request: Request) -> dict[str, int]:
    """Return the usage of a step, with words counted as tokens."""
    prompt = sum(len(str(message.get("content") or "").split()) for message in request["messages"])
    written = len(step.text.split()) + sum(len(call["function"]["arguments"].split()) for call in _calls(step))
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}


def _finish_reason(step: Say | CallTools) -> str:
    return "tool_calls" if isinstance(step, CallTools) else step.finish_reason


def _completion(step: Say | CallTools, request: Request) -> dict[str, Any]:
    """Return a step as the body of a response that is not streamed."""
    message = {"role": "assistant", "content": step.text, "tool_calls": _calls(step) or None}
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(step)}
    return {**_common_fields(request, "chat.completion"), "choices": [choice], "usage": _usage(step, request)}


def _chunks(step: Say | CallTools, request: Request) -> Iterator[dict[str, Any]]:
    """Yield a step as the chunks of a streamed response."""
    head = _common_fields(request, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in re.findall(r"\S+\s*|\s+", step.text)]
    if calls := _calls(step):
        deltas.append({"tool_calls": calls})
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish_reason(step)}]}
    options: Any = request.get("stream_options") or {}
    if options.get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(step, request)}


def _common_fields(request: Request, kind: str) -> dict[str, Any]:
    """Return the fields that every response and chunk has."""
    return {"id": "scripted", "object": kind, "created": 0, "model": request.get("model", "")}
