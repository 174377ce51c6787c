"""Durable runs of commands: their database, source and id."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from operad.configs.runnable import Source
from operad.runtime import events
from operad.runtime.durable import database_names
from operad.runtime.durable.database_names import SQLITE, database_url
from operad.runtime.durable.tables import check_id
from operad.runtime.values.errors import InputError
from operad.runtime.values.message import Job
from operad.runtime.workflow.workflow import Workflow

if TYPE_CHECKING:
    from operad.configs.schema import DurableSpec
    from operad.runtime.durable.ledger import Ledger
    from operad.runtime.durable.shared_agents import Served

Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="Database of durable runs: an SQLite file, or a PostgreSQL URL. By default the value of OPERAD_DB, or a file in your folder for state.",
    ),
]

Files = Annotated[
    str | None,
    typer.Option(
        "--files",
        metavar="PLACE",
        help="Store for files that operators create: a folder, or an address that machines share, such as s3://bucket/runs. By default beside the database.",
    ),
]

_LONGEST_SLUG = 40


def open_ledger(
    db: str | None,
    source: Source | None = None,
    *,
    workers: Served | None = None,
    files: str | None = None,
    durable: DurableSpec | None = None,
) -> Ledger:
    """Return the ledger for a command.

    Args:
        db: The option ``--db``; None for the value of ``OPERAD_DB``, or else the user's own database.
        source: Source of a new run; None if no run starts, so that the ledger must exist.
        workers: Agents of the workers, if workers execute the operators.
        files: Store for files that operators create; None for a folder beside the database.
        durable: Rule for deleting finished runs; None to keep them all.

    Raises:
        InputError: The name is not valid, or the folder or file is missing.
        MissingExtraError: The extra ``durable`` is not installed.
    """
    if files is not None and "://" not in files and Path(files).expanduser().is_file():
        raise InputError(f"--files {files}: is a file; name a folder")
    location = db if db is not None else os.environ.get("OPERAD_DB") or None
    source_data: Any = source.model_dump(exclude_defaults=True) if source else None
    from operad.runtime.durable.ledger import Ledger  # not at import: other runs need no database
    from operad.runtime.durable.tables import Retention

    retention = Retention(durable.max_age, durable.max_runs) if durable else None
    ledger = Ledger(location, source=source_data, workers=workers, files=files, retention=retention)
    if location is not None and ledger.url.get_backend_name() == SQLITE:
        path = Path(str(ledger.url.database))
        if not path.parent.is_dir():
            raise InputError(
                f"{path}: there is no folder {str(path.parent)!r}; make it, or name another file: --db FILE"
            )
        if source is None and not path.exists():
            raise InputError(
                f"{path}: there is no such file, so there are no runs; operad run FILE --durable starts one"
            )
    return ledger


def database_option(db: str | None) -> str:
    """Return the option for commands on the same database; a URL, which may hold a password, is abbreviated."""
    return "" if db is None else database_names.database_option(database_url(db))


def new_run_id(workflow: str) -> str:
    """Return a new id that contains the name of the workflow and the time."""
    slug = re.sub(r"[^a-z0-9]+", "-", workflow.lower()).strip("-")[:_LONGEST_SLUG].strip("-")
    return f"{slug or 'run'}-{datetime.now().astimezone():%m%d-%H%M}-{token_hex(2)}"


class Kept:
    """A durable run of a command.

    Args:
        db: The option ``--db``.
        base_url: The option ``--base-url``, without a login.
        trust: The option ``--trust``, which the command that resumes the run needs as well.

    Raises:
        InputError: The id is not valid for a run.
    """

    def __init__(
        self, ledger: Ledger, run_id: str, db: str | None, base_url: str | None = None, *, trust: bool = False
    ) -> None:
        check_id(run_id)
        self.ledger = ledger
        self.run_id = run_id
        self._option = database_option(db)
        self._resume = resume_command(run_id, db, base_url) + (" --trust" if trust else "")
        self._has_started = False

    def greeting(self, job: Job) -> str:
        """Return the line that is printed at the start of the run.

        Raises:
            InputError: The run has finished with another job.
        """
        from operad.runtime.durable.description import refuse_other_job
        from operad.runtime.durable.tables import FAILED, FINISHED

        kept = self.ledger.store.run(self.run_id)
        state_text = ""
        if kept is not None and kept.state == FINISHED:
            refuse_other_job(self.run_id, self.ledger.job(self.run_id), job)
            state_text = "; it has finished, and this is its result"
        elif kept is not None and kept.state != FAILED and not self.ledger.is_driven(kept):
            state_text = "; it is resumed"
        return f"run: {self.run_id}  (operad runs show {self.run_id}{self._option}){state_text}"

    @property
    def later(self) -> str:
        """Command that answers a question later, without the answer itself."""
        return f"{self._resume} --answer"

    def keep(self, workflow: Workflow, announce: Callable[[], None]) -> None:
        """Store the run of a workflow in the ledger, and announce it once it is stored."""
        workflow.keep_in(self.ledger)

        def note_start(event: events.Event) -> None:  # the first event comes after the record
            if not self._has_started:
                announce()
            self._has_started = True

        workflow.add_listener(note_start)

    def goes_on(self) -> str:
        """Return the text to print after an interruption: the command that resumes the run, if the run had started."""
        return f"; to resume: {self._resume}" if self._has_started else ""


def resume_command(run_id: str, db: str | None, base_url: str | None = None) -> str:
    """Return the command that resumes a run, including an endpoint that must be given again (see `trusted`)."""
    endpoint = f" --base-url {shlex.quote(base_url)}" if base_url and base_url != _default_endpoint() else ""
    return f"operad runs resume {shlex.quote(run_id)}{database_option(db)}{endpoint}"


def trusted(source: Source, run_id: str, db: str | None, model: str | None, base_url: str | None) -> Source:
    """Return the source to resume a run with: the kept one, completed by the command's options.

    Whoever can write to the database can name an endpoint in it, which would receive keys and the operators' inputs.

    Raises:
        InputError: The stored endpoint is named by neither the command nor ``OPENAI_BASE_URL``.
    """
    kept = source.base_url
    if base_url is None and kept is not None and kept != _default_endpoint():
        raise InputError(
            f"run {run_id!r} is kept with the endpoint {kept}, and keys are sent only to endpoints that you name: "
            f"{resume_command(run_id, db, kept)}; or name another with --base-url"
        )
    overrides = {name: value for name, value in (("model", model), ("base_url", base_url)) if value is not None}
    return source.model_copy(
        update={**overrides, "lossy": True}
    )  # the differences were accepted when the run was started


def _default_endpoint() -> str | None:
    return os.environ.get("OPENAI_BASE_URL")
