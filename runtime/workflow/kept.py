"""Where runs are kept, as a workflow sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import JsonValue

from operad.runtime.values.errors import InputError
from operad.runtime.values.message import WorkflowMessage
from operad.runtime.values.output import shown

if TYPE_CHECKING:
    from operad.runtime.graph.call import OperatorCall
    from operad.runtime.reasoning.reasoner import Reasoner
    from operad.runtime.values.questions import Question
    from operad.runtime.workflow.run import Run


_IN_DATABASE = "operad.runtime.durable.ledger"
"""Loaded by name where a database is named: a workflow that is not kept knows of none."""


class Ledger(Protocol):
    """Where runs are kept; `operad.runtime.durable.Ledger` is one."""

    @property
    def workers(self) -> object | None:
        """The workers, with models of their own, that do the operators' work; None where it is done here."""
        ...

    async def drive(self, workflow: Any, run: Run, call: OperatorCall) -> WorkflowMessage:
        """Begin a run, or go on with it."""
        ...

    def open_questions(self, run_id: str) -> Sequence[Question]:
        """What a run asks and nobody has answered yet."""
        ...

    def answer(self, run_id: str, answers: Mapping[str, JsonValue]) -> None:
        """Answer what a run asks; may block."""
        ...

    def to_resume(self, run_id: str, reasoner: Reasoner) -> OperatorCall | None:
        """Return what a run was given, for one that nobody drives; None where a process drives it; may block."""
        ...


def ledger_of(durable: Ledger | str | Path) -> Ledger:
    """A ledger from what a user gives."""
    if isinstance(durable, str | Path):
        return cast("Ledger", import_module(_IN_DATABASE).Ledger(durable))
    if not callable(getattr(durable, "drive", None)):
        raise InputError(
            f"durable: expected a URL such as 'sqlite:///runs.db', a path or a Ledger; got {shown(durable)}"
        )
    return durable
