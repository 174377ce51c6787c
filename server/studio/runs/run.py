"""A run as the studio shows it: its states, outputs, questions and page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from operad.flows.formats.shapes import list_of
from operad.operators.nodes.flow import read_inputs
from operad.operators.variables import VariableType
from operad.runtime import events
from operad.runtime.agents.agent import Agent
from operad.runtime.durable.threads import in_thread
from operad.runtime.events import Event, OperatorFailed, OperatorFinished, WorkflowEntered
from operad.runtime.observe.trace import Trace
from operad.runtime.values.errors import InputError, describe, did_you_mean
from operad.runtime.values.map_item import MapItem, without_index
from operad.runtime.values.message import NO_USAGE, Job, Usage
from operad.runtime.workflow.runs import RunHandle
from operad.server.studio.runs.kept import Messages, Origin, with_files
from operad.server.studio.runs.reuse import RunValues
from operad.server.studio.runs.uploads import Uploads
from operad.server.studio.runs.values import Files
from operad.server.view.picture import picture
from operad.server.view.server import RunPage
from operad.server.view.sources import LedgerSource, LiveSource, Source

if TYPE_CHECKING:
    from operad.runtime.durable.ledger import Ledger

_GO_ON = "continue it in the studio"

POLL = 0.5
"""Seconds between queries of a run that another process drives, or that waits for an answer."""

_VERDICT = ("status", "score", "evaluation", "lesson", "blame", "faults", "unsure", "repairs", "kept")
"""Fields of a round for the browser, beside its operators."""


class StudioRun:
    """A run of a file: one that this studio drives, or one that is kept.

    Args:
        file: Name of the file in the folder.
        values: Store for the messages of nodes.
        titles: Titles of nodes by their ids, for the run page.
        kept: Stored messages, which have their files, by path and round.

    Attributes:
        id: Id of the run.
        created: Time of the start, in seconds since the epoch.
        note: Remark for the reader; empty for none.
    """

    def __init__(
        self,
        run_id: str,
        file: str,
        origin: Origin,
        values: RunValues,
        titles: Mapping[str, str],
        created: float,
        kept: Messages | None = None,
    ) -> None:
        self.id = run_id
        self.file = file
        self.origin = origin
        self.values = values
        self.created = created
        self.note = ""
        self._titles = titles
        self._kept = dict(kept or {})
        self._trace = Trace()
        self.files = Files(f"data/runs/{self.id}/files/")
        self.items = Items()
        self._outputs: list[tuple[int, str, int, dict[str, Any]]] = []
        self._result: dict[str, Any] | None = None
        self._error: str | None = None
        self._page: RunPage | None = None
        self._page_task: asyncio.Task[None] | None = None
        self._ledger: Ledger | None = None
        self._handle: RunHandle[Any] | None = None
        self._task: asyncio.Task[None] | None = None

    # Where the events come from

    def start(self, agent: Agent, job: Job, ledger: Ledger | None, ended: Callable[[], Awaitable[None]]) -> None:
        """Start the run, or continue it if it is kept; follow it to its end.

        Args:
            ledger: Database that keeps it, which is closed at the end; None to keep nothing.
            ended: Function that is called when the run has ended, before it counts as done.
        """
        if self._task is not None:
            self._task.cancel()
        workflow = agent.workflow
        workflow.keep_in(ledger)
        workflow.add_listener(self._on_event)
        if self._ledger is None:
            self._show(LiveSource(workflow))
        self.note, self._error = "", None
        self._handle = workflow.start(job, agent.reasoner, run_id=self.id)
        self._task = asyncio.ensure_future(self._follow(self._handle, ledger, ended))

    async def _follow(
        self, handle: RunHandle[Any], ledger: Ledger | None, ended: Callable[[], Awaitable[None]]
    ) -> None:
        """Consume the run's events to the end, so that the run can wait for answers."""
        try:
            async for _ in handle:
                pass
        except asyncio.CancelledError:
            if not handle.done:
                raise
            self._error = self._error or "cancelled"
        except Exception as error:  # noqa: BLE001 - the error is shown in the browser
            self._error = self._error or describe(error)
        finally:
            if ledger is not None:
                await in_thread(ledger.close)
        await ended()

    async def read(self, ledger: Ledger) -> None:
        """Read the run from the database, and follow it there while it is driven or waits for an answer."""
        self._ledger, self._handle = ledger, None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        source = LedgerSource(ledger, self.id, _GO_ON)
        if not await self._read_news(source):
            self._task = asyncio.ensure_future(self._read_on(source))

    async def _read_on(self, source: LedgerSource) -> None:
        while not await self._read_news(source):  # noqa: ASYNC110 - it asks a database
            await asyncio.sleep(POLL)

    async def _read_news(self, source: LedgerSource) -> bool:
        """Apply new events; return True if no more are to come."""
        for event in await source.news():
            self._on_event(event)
        self.note = source.note(ended=self._trace.ended)
        return self._trace.ended or bool(self.note and not self._questions())

    def _show(self, source: Source) -> RunPage:
        address = f"../../#{urlencode({'file': self.file, 'run': self.id}, quote_via=quote)}"
        self._page = RunPage(source, self._trace.workflow or self.file, titles=self._titles, studio=address)
        self._page_task = asyncio.ensure_future(self._page.keep_up())
        return self._page

    @property
    def page(self) -> RunPage:
        """The run page."""
        if self._page is None:
            assert self._ledger is not None  # noqa: S101 - a run is started or read
            return self._show(LedgerSource(self._ledger, self.id, _GO_ON))
        return self._page

    @property
    def done(self) -> bool:
        """True if the run has ended, or nothing drives it and it asks nothing."""
        return self._task is None or self._task.done()

    @property
    def driven_here(self) -> bool:
        """True if this studio drives the run."""
        return self._handle is not None and not self.done

    @property
    def state(self) -> str:
        """State of the run: running, asking, done, failed, cancelled or interrupted."""
        root = self._trace.root
        if not self.done:
            return "asking" if self._questions() else "running"
        if root is None or root.end is None:
            return "failed" if self._error and self._error != "cancelled" else "interrupted"
        return "cancelled" if root.state == "stopped" else root.state

    @property
    def came_to_something(self) -> bool:
        """True if the run has finished, or failed after a node had; False if it was cancelled."""
        root = self._trace.root
        return root is not None and root.state in ("done", "failed") and self.values.has_results

    def row(self) -> dict[str, Any]:
        """Return the run as the list shows it."""
        root = self._trace.root
        seconds = 0.0 if root is None else (self._trace.now if root.end is None else root.end) - root.start
        usage = NO_USAGE if root is None else root.usage
        return {"id": self.id, "file": self.file, **row(self.origin, self.state, self.created, seconds, usage)}

    # What the events tell

    def _on_event(self, event: events.Event) -> None:
        if event.run_id != self.id:
            return
        event = with_files(event, self._kept)
        self._trace.apply(event)
        self.items.apply(event)
        self.values.apply(event, self.origin.reused)
        node = without_index(event.path[-1]) if event.path else ""
        if isinstance(event, events.OperatorFinished) and node:
            shown = self.files.shown(event.message.outputs or {"text": event.message.scratchpad})
            self._outputs.append((self._trace.version, node, event.round if len(event.path) == 1 else 0, shown))
        elif isinstance(event, events.RunStarted) and not event.path:  # a run that goes on tells all again
            self._outputs, self._result, self._error = [], None, None
        elif isinstance(event, events.RunFinished) and not event.path:
            self._result = self._with_operator_texts(
                self.files.shown(event.message.outputs or {"text": event.message.scratchpad})
            )
        elif isinstance(event, events.RunFailed) and not event.path:
            self._error = "cancelled" if event.error == events.CANCELLED else event.error

    def _with_operator_texts(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result in which the empty outputs of operators are replaced by their texts."""
        texts = {node: values["text"] for _, node, _, values in self._outputs if "text" in values}
        return {name: texts.get(name, value) if value == {} else value for name, value in result.items()}

    @property
    def version(self) -> tuple[int, bool, str]:
        """Value that differs after each change."""
        return self._trace.version, self.done, self.note

    def told(self, since: int) -> dict[str, Any]:
        """Return the changes after a version: the picture of the run page, and the outputs of nodes.

        Args:
            since: The version; 0 for everything.
        """
        run_picture = picture(self._trace, since)
        return {
            **run_picture,
            "outputs": {node: values for version, node, _, values in self._outputs if version > since},
            "before": self._previous_outputs(),
            "rounds": self._rounds(),
            "judges": list(graph.judges) if (graph := self._trace.graphs.get(())) else [],
            "questions": self._questions(),
            "writing": self._writing(),
            "reused": sorted(self.origin.reused),
            "result": self._result,
            "error": self._error,
            "ended": self.done,
            "state": self.state,
            "note": self.note,
            "row": self.row(),
        }

    def _previous_outputs(self) -> dict[str, dict[str, Any]]:
        """Return the outputs before the last round, of nodes that ran in several rounds."""
        last, previous = dict[str, tuple[int, dict[str, Any]]](), dict[str, dict[str, Any]]()
        for _, node, number, values in self._outputs:
            last_round, last_values = last.get(node, (number, values))
            if number > last_round:
                previous[node] = last_values
            last[node] = number, values
        return previous

    def _rounds(self) -> list[dict[str, Any]]:
        """Return the rounds of the workflow, without nested ones: the operators, and the verdict if there is one."""
        return [
            {"operators": span.details["operators"]}
            | {key: span.details[key] for key in _VERDICT if key in span.details}
            for span in self._trace.spans
            if span.kind == "round" and not span.path
        ]

    def _writing(self) -> dict[str, str]:
        """Return the text that models are writing, by node."""
        return {
            without_index(span.path[-1]): span.details["text"]
            for span in self._trace.spans
            if span.end is None and span.path and span.details.get("text")
        }

    def _questions(self) -> list[dict[str, Any]]:
        return [
            {
                "id": span.name,
                "node": without_index(span.path[-1]) if span.path else "",
                "text": span.details.get("question", ""),
                "schema": span.details.get("schema"),
                "arguments": span.details.get("arguments"),
            }
            for span in self._trace.spans
            if span.kind == "question" and span.end is None
        ]

    async def answer(self, question: str, value: Any) -> None:
        """Answer a question of a run that this studio drives.

        Raises:
            OperadError: The question does not exist, or the answer does not fit.
        """
        if self._handle is not None:
            await self._handle.answer({question: value})

    async def stop(self) -> None:
        """Stop the run if this studio drives it, and wait for its end; a kept run can go on later."""
        if self._handle is not None and not self._handle.done:
            await self._handle.cancel()
        if self._handle is not None and self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Close the page of the run, and stop the run: to those who look at the page, the run has not ended."""
        if self._page_task is not None:
            self._page_task.cancel()
        if self._page is not None:
            await self._page.close()
        with suppress(Exception):
            await asyncio.wait_for(self.stop(), 2.0)
        if self._task is not None:
            self._task.cancel()


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return what the pages of tests and trials show of a usage."""
    return {"tokens": usage.tokens, "cost": usage.known_cost, "calls": usage.calls}


def row(origin: Origin, state: str, started: float, seconds: float, usage: Usage) -> dict[str, Any]:
    """Return what the list shows of a run."""
    return {
        "state": state,
        "only": origin.only,
        "from": origin.start,
        "inputs": origin.inputs,
        "step": origin.step,
        "started": started,
        "seconds": max(0.0, seconds),
        "usage": usage.model_dump(mode="json"),
    }


def job_of(inputs: Mapping[str, Any], variables: Any, defaults: Mapping[str, Any], uploads: Uploads, goal: str) -> Job:
    """Return the job for a workflow's inputs, as given by a browser.

    Args:
        inputs: Values by name; a file is ``{"name", "base64"}``, or the name of a file in the folder.
        defaults: Values of inputs that are not given.
        uploads: Source and store of files.

    Raises:
        InputError: Inputs are missing or of another type; all are named.
    """
    kinds = {variable.name: variable.type for variable in variables}
    unknown = [name for name in inputs if name not in kinds and not name.startswith("sys.")]
    if unknown:
        raise InputError(f"there is no input {unknown[0]!r}{did_you_mean(unknown[0], kinds)}")
    given: dict[str, Any] = {}
    for name, value in inputs.items():
        kind = kinds.get(name)
        if kind is VariableType.FILE:
            given[name] = None if value in (None, "") else uploads.path(value, name)
        elif kind is VariableType.ARRAY_FILE:
            files = list_of(value) if isinstance(value, list) else [] if value in (None, "") else [value]
            given[name] = [uploads.path(file, name) for file in files]
        else:
            given[name] = value
    job = Job(goal=goal, inputs=given)
    read_inputs(variables, job, defaults)
    return job


_MOST_ITEMS = 200
"""Maximum number of items of a node whose values are stored."""


class Items:
    """Outputs and errors of nodes inside containers, by the numbers of the items, such as ``2``, or ``2.0`` if nested."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], Any] = {}
        self._results: dict[str, dict[str, dict[str, Any] | str]] = {}

    def apply(self, event: Event) -> None:
        """Store what an event says of a node inside a container, or of the item that a container gives."""
        found = [item for step in event.path if (item := MapItem.parse(step))]
        if not found:
            return
        label, node = ".".join(str(item.index) for item in found), without_index(event.path[-1])
        if isinstance(event, WorkflowEntered) and event.item is not None:
            if len(self._given) < _MOST_ITEMS * _MOST_ITEMS:
                self._given[node, label] = event.item
        elif isinstance(event, OperatorFinished | OperatorFailed):
            results = self._results.setdefault(node, {})
            if label in results or len(results) < _MOST_ITEMS:
                if isinstance(event, OperatorFailed):
                    results[label] = event.error
                else:
                    results[label] = event.message.outputs or {"text": event.message.scratchpad}

    def is_full(self, node: str) -> bool:
        """Return True if a node may have run for more items than are stored."""
        return len(self._results.get(node, ())) >= _MOST_ITEMS

    def labels(self, node: str) -> list[str]:
        """Return the items in which a node ran, in their order."""
        return sorted(self._results.get(node, ()), key=lambda label: [int(part) for part in label.split(".")])

    def given(self, container: str, label: str) -> Any:
        """Return the item that a container gave; None for none."""
        return self._given.get((container, label))

    def result(self, node: str, label: str) -> dict[str, Any] | str | None:
        """Return the outputs of a node for an item, or its error as a text; None if it did not run."""
        return self._results.get(node, {}).get(label)
