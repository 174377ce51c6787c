"""Store of durable runs, as seen by a workflow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import JsonValue

from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job, WorkflowMessage

if TYPE_CHECKING:
    from operad.runtime.events import Event
    from operad.runtime.graph.call import OperatorCall
    from operad.runtime.graph.graph import WorkflowGraph
    from operad.runtime.graph.operator import BaseOperator
    from operad.runtime.reasoning.reasoner import Reasoner
    from operad.runtime.values.questions import Question
    from operad.runtime.workflow.live import LiveRun
    from operad.runtime.workflow.run import Run


_IN_DATABASE = "operad.runtime.durable.ledger"
"""Module of the ledger. It is imported by name when a database is used, so that other workflows do not import it."""


class RunStore(Protocol):
    """Protocol of a store of durable runs, such as `operad.runtime.durable.Ledger`."""

    @property
    def workers(self) -> object | None:
        """The workers that execute the operators with their own models; None if this process executes them."""
        ...

    async def execute(self, workflow: Any, run: Run, call: OperatorCall) -> WorkflowMessage:
        """Execute a new run, or resume a stored one, and return its message."""
        ...

    def job(self, run_id: str) -> Job:
        """Return the job of a run; may block."""
        ...

    def result(self, run_id: str) -> WorkflowMessage | None:
        """Return the message of a run; None if it has not finished; may block."""
        ...

    def events(self, run_id: str) -> Sequence[Event]:
        """Return the events of a run so far; may block."""
        ...

    def retry(self, run_id: str) -> None:
        """Prepare a failed run to be resumed; raise InputError if it did not fail; may block."""
        ...

    def open_questions(self, run_id: str) -> Sequence[Question]:
        """Return the open questions of a run; may block."""
        ...

    def stored_answers(self, run_id: str) -> Mapping[str, JsonValue]:
        """Return the answers to questions of a run, by question id, without those to open questions; may block."""
        ...

    def answer(self, run_id: str, answers: Mapping[str, JsonValue]) -> None:
        """Answer questions of a run; may block."""
        ...

    def unfinished(self, run_id: str, graph: WorkflowGraph) -> Collection[BaseOperator] | None:
        """Return the operators of a stored run that have not finished; None if all of them may run; may block."""
        ...

    def to_resume(self, run_id: str, workflow: Any, reasoner: Reasoner) -> OperatorCall | None:
        """Return the input of a run without a driver; None if a process drives the run; may block."""
        ...

    def live_run(self, run_id: str) -> LiveRun | None:
        """Return a run in progress in this process, also if another `Workflow` object started it; None if there is none."""
        ...


def run_store_of(durable: RunStore | str | Path) -> RunStore:
    """Return a store of runs for a database URL, a path or a store.

    Raises:
        InputError: The value is none of these.
    """
    if isinstance(durable, str | Path):
        return cast("RunStore", import_module(_IN_DATABASE).Ledger(durable))
    if not callable(getattr(durable, "execute", None)):
        raise InputError(
            f"durable: expected a URL such as 'sqlite:///runs.db', a path or a Ledger; got {short_repr(durable)}"
        )
    return durable
