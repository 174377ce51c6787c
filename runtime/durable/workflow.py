"""Workflow with durable runs."""

from __future__ import annotations

from typing import Any

from operad.runtime.durable.ledger import Ledger
from operad.runtime.workflow.workflow import BuiltinWorkflow, T


class DurableWorkflow(BuiltinWorkflow[T]):
    """Workflow whose runs are stored in a database, and survive a crash.

        letters = DurableWorkflow("letters.db", name="letters")
        letters.add_operator(facts)
        print(letters)

    A run resumes when it is executed with the same `run_id` again: operators that had finished do not run again. If the
    run has finished, its message is returned.

    Args:
        url: The database: a URL of PostgreSQL or SQLite, or the path of an SQLite file; None for one in
            the user's state folder.
        max_rounds: Maximum number of rounds until the evaluator accepts the result; see `Workflow`.
        options: Options of any `Workflow`.

    Raises:
        InputError: The database's name is not valid.
        MissingExtraError: The extra ``durable`` is not installed.
    """

    def __init__(self, url: str | None = None, max_rounds: int | None = None, **options: Any) -> None:
        super().__init__(max_rounds=max_rounds, **options)
        self.keep_in(Ledger(url))
