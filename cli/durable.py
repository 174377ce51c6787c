"""Runs that commands keep: in which database, made from what, under which id."""

from __future__ import annotations

import os
import re
import shlex
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from operad.configs.runnable import Source
from operad.runtime import events
from operad.runtime.durable.places import SQLITE, check_id, database_url, shown
from operad.runtime.values.errors import InputError
from operad.runtime.workflow.workflow import Workflow

if TYPE_CHECKING:
    from operad.configs.schema import DurableSpec
    from operad.runtime.durable.ledger import Ledger
    from operad.runtime.durable.served import Served

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
        source: Source of a new run; None if none begins, so the ledger must exist.
        workers: Agents of the workers, if workers execute the operators.
        files: Store for files that operators create; None for a folder beside the database.
        durable: Rule for deleting finished runs; None to keep them all.

    Raises:
        InputError: The name is not valid, or the folder or file is missing.
        MissingExtraError: The extra ``durable`` is not installed.
    """
    given = db if db is not None else os.environ.get("OPERAD_DB") or None
    made_from: Any = source.model_dump(exclude_defaults=True) if source else None
    from operad.runtime.durable.ledger import Ledger  # not at import: a run that is not kept needs no database
    from operad.runtime.durable.rows import Retention

    retention = Retention(durable.max_age, durable.max_runs) if durable else None
    ledger = Ledger(given, source=made_from, workers=workers, files=files, retention=retention)
    if given is not None and ledger.url.get_backend_name() == SQLITE:
        path = Path(str(ledger.url.database))
        if not path.parent.is_dir():
            raise InputError(
                f"{path}: there is no folder {str(path.parent)!r}; make it, or name another file: --db FILE"
            )
        if source is None and not path.exists():
            raise InputError(f"{path}: there is no such file, and so no runs; operad run FILE --durable begins one")
    return ledger


def database_option(db: str | None) -> str:
    """Return the option for commands on the same database; a URL, which may hold a password, is abbreviated."""
    if db is None:
        return ""
    url = database_url(db)
    return f" --db {shlex.quote(shown(url)) if url.get_backend_name() == SQLITE else 'URL'}"


def new_run_id(workflow: str) -> str:
    """A fresh id that says what runs and since when."""
    slug = re.sub(r"[^a-z0-9]+", "-", workflow.lower()).strip("-")[:_LONGEST_SLUG].strip("-")
    return f"{slug or 'run'}-{datetime.now().astimezone():%m%d-%H%M}-{token_hex(2)}"


class Kept:
    """A durable run of a command.

    Args:
        ledger: The ledger.
        run_id: Id of the run.
        db: The option ``--db``.
        base_url: The option ``--base-url``, without a login.
        trust: The option ``--trust``, which the command that resumes the run needs as well.

    Attributes:
        ledger: The ledger.
        run_id: Id of the run.

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
        self._has_begun = False

    @property
    def greeting(self) -> str:
        """Line to print at the start."""
        from operad.runtime.durable.rows import FAILED, FINISHED

        kept = self.ledger.store.run(self.run_id)
        so_far = ""
        if kept is not None and kept.state == FINISHED:
            so_far = "; it has finished, and this is its result"
        elif kept is not None and kept.state != FAILED and not self.ledger.is_driven(kept):
            so_far = "; it is resumed"
        return f"run: {self.run_id}  (operad runs show {self.run_id}{self._option}){so_far}"

    @property
    def later(self) -> str:
        """Prefix of an answer that is given later."""
        return f"{self._resume} --answer"

    def keep(self, workflow: Workflow) -> None:
        """Have the workflow's run kept."""
        workflow.keep_in(self.ledger)
        workflow.add_listener(self._hear)

    def goes_on(self) -> str:
        """Return the line to print after an interruption: the command to resume the run, if it had begun."""
        return f"; to resume: {self._resume}" if self._has_begun else ""

    def _hear(self, event: events.Event) -> None:
        self._has_begun = True


def resume_command(run_id: str, db: str | None, base_url: str | None = None) -> str:
    """The command that goes on with a run; an endpoint that was given must be given again (`trusted`)."""
    endpoint = f" --base-url {shlex.quote(base_url)}" if base_url and base_url != _usual_endpoint() else ""
    return f"operad runs resume {shlex.quote(run_id)}{database_option(db)}{endpoint}"


def trusted(source: Source, run_id: str, db: str | None, model: str | None, base_url: str | None) -> Source:
    """Return the source to resume a run with: the kept one, completed by the command's options.

    Write access to the database allows naming an endpoint in it, which would receive keys and the operators' inputs.

    Raises:
        InputError: The run has an endpoint that neither the command nor ``OPENAI_BASE_URL`` names.
    """
    kept = source.base_url
    if base_url is None and kept is not None and kept != _usual_endpoint():
        raise InputError(
            f"run {run_id!r} is kept with the endpoint {kept}, and keys are sent only where you say: "
            f"{resume_command(run_id, db, kept)}; or name another with --base-url"
        )
    given = {name: value for name, value in (("model", model), ("base_url", base_url)) if value is not None}
    return source.model_copy(update={**given, "lossy": True})  # as the run was begun, it was let run


def _usual_endpoint() -> str | None:
    return os.environ.get("OPENAI_BASE_URL")
