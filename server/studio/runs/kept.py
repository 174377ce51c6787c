"""Runs of a studio's files that are kept in a database, in the user's folder for program state.

The database is not in the folder of the files: values of runs stay out of its copies, and a folder that was copied
from elsewhere brings no runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as changed
from pydantic import BaseModel, ValidationError

from operad.flows.formats.shapes import fields_of, list_of
from operad.runtime.durable.codec import Outcome
from operad.runtime.durable.database_names import state_folder
from operad.runtime.durable.tables import ASKS, FINISHED, RUNNING, Retention, StoredRun
from operad.runtime.events import Event, OperatorFinished
from operad.runtime.events.journal import bare
from operad.runtime.values.errors import OperadError
from operad.runtime.values.message import WorkflowMessage

if TYPE_CHECKING:
    from operad.runtime.durable.ledger import Ledger

KEPT = Retention(max_age=30 * 86_400, max_runs=50)
"""Default for the runs that are kept of each file: the newest 50, for 30 days."""

MOST_OF_INPUTS = 120
"""Maximum number of characters of a run's inputs in the list."""


Messages = Mapping[tuple[tuple[str, ...], int], WorkflowMessage]
"""Messages of operators, by path and round."""


class Origin(BaseModel, frozen=True):
    """File, step and nodes of a run, which the database holds as the source of the run.

    Attributes:
        file: Path of the file.
        step: Step of the file's history that ran; 0 if it is not known.
        only: Node that ran alone; empty for none.
        start: Node at which the run began; empty for the beginning.
        reused: Nodes whose messages come from an earlier run.
        inputs: The inputs in short.
        model: Name of the chosen model; empty for that of the environment.
        pinned: Nodes that gave pinned values.
    """

    file: str
    step: int = 0
    only: str = ""
    start: str = ""
    reused: tuple[str, ...] = ()
    inputs: str = ""
    model: str = ""
    pinned: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Origin:
        """Return the origin in the source of a stored run; one without a file if another program wrote it."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return cls(file="")


def inputs_in_short(inputs: Mapping[str, Any]) -> str:
    """Return inputs as one line; of a file, its name."""
    shown = [f"{name}: {_in_short(value)}" for name, value in inputs.items() if value not in (None, "", [])]
    line = " ".join(", ".join(shown).split())
    return line if len(line) <= MOST_OF_INPUTS else f"{line[:MOST_OF_INPUTS]}…"


def _in_short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_in_short(each) for each in list_of(value)[:MOST_OF_INPUTS])
    return str(fields_of(value).get("name", value))[:MOST_OF_INPUTS]


def with_files(event: Event, kept: Messages) -> Event:
    """Return an event with the kept message of its operator, whose files exist."""
    if not isinstance(event, OperatorFinished):
        return event
    return changed(event, message=kept.get((event.path, event.round), event.message))


class KeptRuns:
    """The runs of all files of a user, in one database. Its methods may block.

    Args:
        root: Folder of the database; by default in the user's folder for program state.
        retention: Rule that deletes the runs of a file, whatever became of them, when another run of it ends.

    Attributes:
        fault: Reason why runs are not kept; empty if they are.
    """

    def __init__(self, root: Path | None = None, retention: Retention = KEPT) -> None:
        self.retention = retention
        self.fault = ""
        self._path = (root or state_folder() / "studio") / "runs.sqlite"
        self._ledger: Ledger | None = None
        self._opening = Lock()

    def ledger(self) -> Ledger | None:
        """Return the database for everything but starting runs; None if runs are not kept."""
        with self._opening:
            if self._ledger is None and not self.fault:
                try:
                    self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    self._ledger = self._open()
                    self._ledger.runs(1)
                except (OperadError, OSError) as error:
                    self._ledger, self.fault = None, f"Runs are only kept while the studio is open: {error}"
            return self._ledger

    def _open(self, origin: Origin | None = None) -> Ledger:
        from operad.runtime.durable.ledger import Ledger  # an extra; and its import takes a while

        return Ledger(self._path, source=origin and origin.model_dump(mode="json"))

    def ledger_of(self, origin: Origin) -> Ledger | None:
        """Return a ledger that drives a run, to be closed after it; None if runs are not kept."""
        return None if self.ledger() is None else self._open(origin)

    def close(self) -> None:
        """Close the database."""
        if self._ledger is not None:
            self._ledger.close()

    def run(self, run_id: str) -> tuple[StoredRun, Origin] | None:
        """Return a run; None if it is not kept."""
        ledger = self.ledger()
        found = None if ledger is None else ledger.store.run(run_id)
        return found and (found, Origin.read(found.source))

    def listed(self, file: Path) -> list[tuple[StoredRun, Origin]]:
        """Return the runs of a file, the newest first, without their inputs and results."""
        ledger = self.ledger()
        if ledger is None:
            return []
        return [(run, Origin.read(run.source)) for run in ledger.store.runs_of(json.dumps({"file": str(file)})[:-1])]

    def state(self, run: StoredRun) -> str:
        """Return the state of a run, as the page names it."""
        ledger = self.ledger()
        if run.state == RUNNING and (ledger is None or run.driver not in ledger.alive()):
            return "interrupted"
        return {FINISHED: "done", ASKS: "asking"}.get(run.state, run.state)

    def messages(self, run_id: str) -> Messages:
        """Return the messages of a run's operators, with their files, by path and round; events only name files."""
        found: dict[tuple[tuple[str, ...], int], WorkflowMessage] = {}
        if (ledger := self.ledger()) is None:
            return found
        for row in ledger.steps.of_run(run_id, outcomes=True):
            path, rounds = bare(row.key)
            with suppress(OperadError):  # it cannot be read, or a file is gone: the event has the message
                if row.outcome and (message := ledger.codec.load(row.outcome, Outcome).message) is not None:
                    found[tuple(path), rounds[-1]] = message
        return found

    def delete(self, *run_ids: str) -> None:
        """Delete runs, and the files that only they refer to.

        Raises:
            InputError: A run is in progress.
        """
        ledger = self.ledger()
        if ledger is not None and (known := [run.run_id for run in ledger.store.runs_by_id(run_ids)]):
            ledger.delete(*known)
            ledger.collect_files()

    def retire(self, file: Path) -> list[str]:
        """Delete the runs of a file that are too many or too old, and are not in progress; return their ids."""
        ledger = self.ledger()
        if ledger is None:
            return []
        now, alive, rule = ledger.store.database.now(), ledger.alive(), self.retention
        surplus = [
            run.run_id
            for number, (run, _) in enumerate(self.listed(file))
            if not (run.driver and run.driver in alive)
            and (
                (rule.max_runs is not None and number >= rule.max_runs)
                or (rule.max_age is not None and now - run.updated > rule.max_age)
            )
        ]
        if surplus:
            self.delete(*surplus)
        return surplus
