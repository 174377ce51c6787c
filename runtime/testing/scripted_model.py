"""An endpoint that answers from a script, for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
from operad.runtime.testing.wire import CHAT_COMPLETIONS, RESPONSES, Event, Turn, Wire
from operad.runtime.values.errors import OperadError, describe

if TYPE_CHECKING:
    from typing import Self

    from operad.runtime.models.api import Api


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


_WIRES = {"/v1/chat/completions": CHAT_COMPLETIONS, "/v1/responses": RESPONSES}


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

    def _stream(self, events: Iterable[Event], last: str | None) -> None:
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
