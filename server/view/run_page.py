"""Page of one run: its picture, its changes, and answers of a person."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from operad.runtime.durable.restart import Restart
from operad.runtime.events import Event, RunStarted
from operad.runtime.observe.metrics import exposition
from operad.runtime.observe.trace import Trace
from operad.runtime.values.errors import InputError
from operad.runtime.values.valid_json import to_json
from operad.server.view.page import page
from operad.server.view.picture import details, picture
from operad.server.view.sources import Source

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

from operad.server.http.keys import caller_name
from operad.server.http.page_headers import content_policy
from operad.server.http.streams import EventStream
from operad.server.view.http import application, json_body, json_response, whole_number

PACE = 0.2
"""Seconds between reads of a run's events, and between messages to a browser."""

KEEP_ALIVE = 10.0
"""Seconds between comments to a browser that keep its connection alive."""

MOST_STREAMS = 32
"""Maximum number of browsers that follow a run at once."""

_logger = logging.getLogger(__name__)


class RunPage:
    """The page of one run, or of consecutive runs.

    Args:
        metrics: Metrics for Prometheus at `metrics`; None for none.
        titles: Titles of operators by their ids; others are shown by their ids.
        studio: Address at which the studio shows the run, relative to the page; empty for none.

    Attributes:
        app: The application.
    """

    def __init__(
        self,
        source: Source,
        title: str,
        metrics: CollectorRegistry | None = None,
        titles: Mapping[str, str] | None = None,
        studio: str = "",
    ) -> None:
        self._source = source
        self._studio = studio
        self._titles = dict(titles or {})
        self._registry = metrics
        self._trace = Trace()
        self._fault = ""
        self._streams = 0
        self._closing = asyncio.Event()
        self._html = page(title)
        self._policy = content_policy(self._html)
        self.app = application(
            Route("/", self._page),
            Route("/data/picture", self._picture),
            Route("/data/changes", self._changes),
            Route("/data/details", self._details),
            Route("/data/answer", self._answer, methods=["POST"]),
            Route("/data/cancel", self._cancel, methods=["POST"]),
            Route("/data/restart", self._restart, methods=["POST"]),
            Route("/metrics", self._metrics),
        )

    @property
    def followed(self) -> bool:
        """True if a browser follows the run."""
        return self._streams > 0

    # The run

    async def keep_up(self) -> None:
        """Read events of the run, until cancelled."""
        while True:
            more = await self._read_events()
            await asyncio.sleep(0 if more else PACE)

    async def close(self) -> None:
        """Read the last events, and end the browsers' streams after sending them."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._read_events(), PACE)
        self._closing.set()

    async def _read_events(self) -> bool:
        new_events: Sequence[Event] = ()
        with self._faults_noted():
            new_events = await self._source.news()
        for event in new_events:
            with self._faults_noted():
                self._take_in(event)
        return bool(new_events)

    @contextmanager
    def _faults_noted(self) -> Generator[None, None, None]:
        """Note the failure of one event, so that others are still shown."""
        try:
            yield
        except Exception as error:
            before, self._fault = self._fault, f"not all can be shown: {type(error).__name__}, described in the log"
            if self._fault != before:
                _logger.error("the page of a run cannot show all", exc_info=error)

    def _take_in(self, event: Event) -> None:
        trace = self._trace
        if trace.run_id and event.run_id != trace.run_id and not isinstance(event, RunStarted):
            return  # an event of another run of the same workflow
        trace.apply(event)

    @property
    def _note(self) -> str:
        return self._fault or self._source.note(ended=self._trace.ended)

    @property
    def _actions(self) -> list[str]:
        control = self._source.control
        return [] if control is None else ["answer", "cancel", *(["restart"] if control.restart else [])]

    def _page_data(self, since: int = 0) -> dict[str, Any]:
        """Return the data of the page: the picture, or its changes since a version.

        Beside the values of `picture`, there are ``note``, a remark for the reader; ``can``, the available actions:
        ``answer``, ``cancel``, ``restart``; ``titles`` of operators by their ids; and ``studio``, its address.
        """
        return {
            **picture(self._trace, since),
            "note": self._note,
            "can": self._actions,
            "titles": self._titles,
            "studio": self._studio,
        }

    # Requests

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(self._html, headers={"content-security-policy": self._policy})

    async def _picture(self, request: Request) -> Response:
        return json_response(self._page_data(whole_number(request.query_params.get("since", "0"))))

    async def _changes(self, request: Request) -> Response:
        if self._streams >= MOST_STREAMS:
            raise HTTPException(503, f"{MOST_STREAMS} browsers follow this run already; close one")
        since = whole_number(request.headers.get("last-event-id") or request.query_params.get("since", "0"))
        return EventStream(self._messages(since), KEEP_ALIVE)

    async def _messages(self, since: int) -> AsyncGenerator[bytes, None]:
        self._streams += 1
        closed = asyncio.ensure_future(self._closing.wait())
        try:
            sent = None
            while True:
                closing, current = self._closing.is_set(), (self._trace.version, self._note)
                if current != sent:
                    data = self._page_data(since)
                    yield f"id: {data['version']}\ndata: {to_json(data)}\n\n".encode()
                    since, sent = data["version"], current
                if closing:
                    return
                await asyncio.wait([closed], timeout=PACE)
        finally:
            closed.cancel()
            self._streams -= 1

    async def _details(self, request: Request) -> Response:
        spans = self._trace.spans
        wanted = request.query_params.get("span")
        if wanted is None:
            return StreamingResponse(_all_details(self._trace), media_type="application/json")
        number = whole_number(wanted)
        if number >= len(spans):
            raise HTTPException(404, f"there is no span {number}; there are {len(spans)}")
        return json_response(details(self._trace, number))

    async def _answer(self, request: Request) -> Response:
        control = self._source.control
        body = await json_body(request)
        if control is None:
            raise InputError(
                "the page shows a file of events, which takes no answers; answer the run in the process that runs it"
            )
        if not isinstance(body.get("interrupt_id"), str) or "value" not in body:
            raise HTTPException(400, 'say {"interrupt_id": the question\'s id, "value": the answer}')
        await control.answer(self._trace.run_id, body["interrupt_id"], body["value"], caller_name(request.scope))
        return json_response({})

    async def _cancel(self, request: Request) -> Response:
        control = self._source.control
        await json_body(request)
        if control is None:
            raise InputError("a run shown from a file of events cannot be cancelled")
        if self._trace.ended or not self._trace.run_id:
            raise InputError("no run is in progress")
        await control.cancel(self._trace.run_id)
        return json_response({})

    async def _restart(self, request: Request) -> Response:
        control, body = self._source.control, await json_body(request)
        if control is None or control.restart is None:
            raise InputError("this page cannot restart the run; operad runs resume ID --restart-from OPERATOR does")
        operator, round_, inputs = body.get("operator"), body.get("round", 1), body.get("inputs", {})
        if not isinstance(operator, str) or type(round_) is not int or not isinstance(inputs, dict):
            raise HTTPException(400, 'say {"operator": its path, "round": a number, "output": a value, "inputs": {…}}')
        outputs = {operator: body["output"]} if "output" in body else {}
        made = Restart(operator, round_, outputs, cast("dict[str, Any]", inputs), caller_name(request.scope))
        return json_response({"run_id": await control.restart(made)})

    async def _metrics(self, request: Request) -> Response:
        if self._registry is None:
            raise HTTPException(404, "metrics exist only for runs of this process, and need the extra `tracing`")
        body, kind = exposition(self._registry)
        return Response(body, headers={"content-type": kind})


def _all_details(trace: Trace) -> Iterator[str]:
    """Yield the details of all spans as JSON, span by span, as their total size may be large."""
    separator = "{"
    for span in list(trace.spans):
        if span.details:
            yield f'{separator}"{span.id}":{to_json(span.details)}'
            separator = ","
    yield "{}" if separator == "{" else "}"
