"""Store of durable runs, as seen by a workflow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import JsonValue

from operad.runtime.values.errors import InputError
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.output import shown

if TYPE_CHECKING:
    from operad.runtime.graph.call import OperatorCall
    from operad.runtime.graph.graph import WorkflowGraph
    from operad.runtime.graph.operator import BaseOperator
    from operad.runtime.reasoning.reasoner import Reasoner
    from operad.runtime.values.questions import Question
    from operad.runtime.workflow.run import Run


_IN_DATABASE = "operad.runtime.durable.ledger"
"""Loaded by name where a database is named: a workflow that is not kept knows of none."""


class RunStore(Protocol):
    """Store of durable runs; `operad.runtime.durable.Ledger` is one."""

    @property
    def workers(self) -> object | None:
        """The workers, with models of their own, that do the operators' work; None where it is done here."""
        ...

    async def execute(self, workflow: Any, run: Run, call: OperatorCall) -> WorkflowMessage:
        """Begin a run, or resume it."""
        ...

    def open_questions(self, run_id: str) -> Sequence[Question]:
        """Return the questions of a run without an answer."""
        ...

    def answer(self, run_id: str, answers: Mapping[str, JsonValue]) -> None:
        """Answer questions of a run; may block."""
        ...

    def unfinished(self, run_id: str, graph: WorkflowGraph) -> Collection[BaseOperator] | None:
        """Return the operators of a kept run that have not finished; None if all of them may run; may block."""
        ...

    def to_resume(self, run_id: str, workflow: Any, reasoner: Reasoner) -> OperatorCall | None:
        """Return the input of a run that no process drives; None if a process drives it; may block."""
        ...


def run_store_of(durable: RunStore | str | Path) -> RunStore:
    """Return the store of runs for a user's value."""
    if isinstance(durable, str | Path):
        return cast("RunStore", import_module(_IN_DATABASE).Ledger(durable))
    if not callable(getattr(durable, "execute", None)):
        raise InputError(
            f"durable: expected a URL such as 'sqlite:///runs.db', a path or a Ledger; got {shown(durable)}"
        )
    return durable
