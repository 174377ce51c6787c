"""Runs that are started in the studio: their states, outputs, questions and pages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from operad.flows.formats.shapes import list_of
from operad.operators.nodes.flow import read_inputs
from operad.operators.variables import VariableType
from operad.runtime import events
from operad.runtime.agents.agent import Agent
from operad.runtime.observe.trace import Trace
from operad.runtime.values.errors import InputError, describe, did_you_mean
from operad.runtime.values.map_item import MapItem, without_index
from operad.runtime.values.message import Job, WorkflowMessage, new_id
from operad.runtime.workflow.run_handle import RunHandle
from operad.server.studio.runs.reuse import LastRun
from operad.server.studio.runs.uploads import Uploads
from operad.server.studio.runs.values import Files
from operad.server.view.picture import picture
from operad.server.view.server import RunPage
from operad.server.view.sources import LiveSource

_VERDICT = ("status", "evaluation", "lesson", "blame", "faults", "unsure", "repairs", "kept")
"""Fields of a round for the browser, beside its operators."""


class StudioRun:
    """A run of a file.

    Args:
        last: Store for the messages of nodes.
        reused: Nodes whose messages come from the last run.
        titles: Titles of nodes by their ids, for the run page.

    Attributes:
        id: Id of the run.
        page: The run page.
    """

    def __init__(
        self,
        file: str,
        agent: Agent,
        job: Job,
        last: LastRun,
        reused: frozenset[str] = frozenset(),
        titles: Mapping[str, str] | None = None,
    ) -> None:
        self.id = new_id()
        self.file = file
        self._last = last
        self._reused = reused
        self._trace = Trace()
        self.files = Files(f"data/runs/{self.id}/files/")
        self._outputs: list[tuple[int, str, int, dict[str, Any]]] = []
        self._result: dict[str, Any] | None = None
        self._error: str | None = None
        self.page = RunPage(LiveSource(agent.workflow), agent.workflow.name, titles=titles)
        agent.workflow.add_listener(self._on_event)
        self._page_task = asyncio.ensure_future(self.page.keep_up())
        self._handle: RunHandle[Any] = agent.workflow.start(job, agent.reasoner, run_id=self.id)
        self._task = asyncio.ensure_future(self._follow())

    @property
    def done(self) -> bool:
        """True if the run has ended."""
        return self._task.done()

    async def _follow(self) -> None:
        """Consume the run's events to the end, so that the run can wait for answers."""
        try:
            async for _ in self._handle:
                pass
        except asyncio.CancelledError:
            if not self._handle.done:
                raise
            self._error = self._error or "cancelled"
        except Exception as error:  # noqa: BLE001 - the error is shown in the browser
            self._error = self._error or describe(error)

    def _on_event(self, event: events.Event) -> None:
        if event.run_id != self.id:
            return
        self._trace.apply(event)
        node = without_index(event.path[-1]) if event.path else ""
        if isinstance(event, events.OperatorFinished) and node:
            shown = self.files.shown(event.message.outputs or {"text": event.message.scratchpad})
            self._outputs.append((self._trace.version, node, event.round if len(event.path) == 1 else 0, shown))
            if node not in self._reused:
                self._last.note(node, event.message)
        elif isinstance(event, events.WorkflowEntered) and event.item is not None:
            item = MapItem.parse(event.path[-1])
            outputs = {"item": event.item, "index": item.index if item else 0}
            self._last.items[node] = WorkflowMessage(outputs=outputs, operator_id=node)
        elif isinstance(event, events.OperatorFailed) and node:
            self._last.errors[node] = event.error
        elif isinstance(event, events.RunFinished) and not event.path:
            self._result = self._with_operator_texts(
                self.files.shown(event.message.outputs or {"text": event.message.scratchpad})
            )
        elif isinstance(event, events.RunFailed) and not event.path:
            self._error = event.error

    def _with_operator_texts(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result in which the empty outputs of operators are replaced by their texts."""
        texts = {node: values["text"] for _, node, _, values in self._outputs if "text" in values}
        return {name: texts.get(name, value) if value == {} else value for name, value in result.items()}

    @property
    def version(self) -> tuple[int, bool]:
        """Value that differs after each change."""
        return self._trace.version, self._task.done()

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
            "reused": sorted(self._reused),
            "result": self._result,
            "error": self._error,
            "ended": run_picture["ended"] or self.done,
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
        """Answer a question.

        Raises:
            OperadError: The question does not exist, or the answer does not fit.
        """
        await self._handle.answer({question: value})

    async def cancel(self) -> None:
        """Cancel the run, and wait for its end."""
        if not self._handle.done:
            await self._handle.cancel()

    async def close(self) -> None:
        """Cancel the run, and close its page."""
        self._page_task.cancel()
        with suppress(Exception):
            await asyncio.wait_for(self.cancel(), 1.0)
        await self.page.close()
        self._task.cancel()


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
