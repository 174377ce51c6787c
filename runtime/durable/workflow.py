"""A workflow whose runs are kept."""

from __future__ import annotations

from typing import Any

from operad.runtime.durable.ledger import Ledger
from operad.runtime.workflow.workflow import BuiltinWorkflow, T


class DurableWorkflow(BuiltinWorkflow[T]):
    """A workflow whose runs are kept in a database, and survive a crash.

    A run goes on where it was when it is executed with the same `run_id` again: operators that had
    finished do not run again. That of a run that has finished returns its message.

    Args:
        url: The database: a URL of PostgreSQL or SQLite, or the path of an SQLite file; None for one in
            the user's state folder.
        max_rounds: How often at most the operators run until the evaluator is content.
        options: What any `Workflow` takes.

    Raises:
        InputError: The database cannot be named so.
        MissingExtraError: The extra ``durable`` is not installed.
    """

    def __init__(self, url: str | None = None, max_rounds: int = 1, **options: Any) -> None:
        super().__init__(max_rounds=max_rounds, **options)
        self.keep_in(Ledger(url))
