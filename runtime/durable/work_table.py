"""Operators of stored runs: their records and outcomes, and the requests to workers and their claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from operad.runtime.durable.codec import Codec, Outcome
from operad.runtime.durable.database import Database, retried
from operad.runtime.durable.tables import DONE, UNDER_WAY, StepRow, Tables, storable, text_of
from operad.runtime.values.errors import InputError

CANCELLED = "CANCELLED"
"""State of work that ended without an outcome."""

Enqueue = Callable[[Any, Sequence[tuple[str, str]]], None]
"""Function that puts (name of a queue, id) into queues within the transaction of a connection."""


class Request(NamedTuple):
    """Request for an operator's work.

    Attributes:
        id: New id of the work.
        queue: Queue of the workers that can execute the operator.
        version: Version of the code that workers must have.
        channel: Channel on which the driver of the run is notified of the outcome.
    """

    id: str
    queue: str
    run_id: str
    key: str
    text: str
    version: str
    channel: str


class Claim(NamedTuple):
    """Work that a worker has claimed.

    Attributes:
        key: Key of the operator in the run.
        deaths: Ids of the workers that claimed the work before, and neither ended it nor gave it back.
    """

    id: str
    run_id: str
    key: str
    request: str
    claim: int
    deaths: Sequence[str]


def delivery_queue(queue: str, version: str) -> str:
    """Return the name under which work is delivered to the workers of a queue that have a version of the code."""
    return f"{queue}@{version}"


class WorkTable:
    """Table of the work of workers."""

    def __init__(self, database: Database, tables: Tables) -> None:
        self.database = database
        self._table = tables.work

    # Drivers

    @retried
    def request(self, requests: Sequence[Request], enqueue: Enqueue) -> Sequence[str]:
        """Record requests and enqueue them, in one transaction; work that exists is only told its new driver.

        Returns:
            The id of the work for each request: that of the request, or of the work that exists.
        """
        sa, table = self.database.sa, self._table
        postgresql = import_module("sqlalchemy.dialects.postgresql")
        insert = postgresql.insert(table).values([_row_of(each, self.database.clock) for each in requests])
        insert = insert.on_conflict_do_nothing(index_elements=["run_id", "key"]).returning(table.c.id)
        ids = list[str]()
        with self.database.engine.begin() as connection:
            new = set(connection.execute(insert).scalars())
            for each in requests:
                if each.id in new:
                    ids.append(each.id)
                    continue
                same = sa.and_(table.c.run_id == each.run_id, table.c.key == each.key)
                change = sa.update(table).where(same).values(channel=each.channel).returning(table.c.id)
                ids.append(connection.execute(change).scalar_one())
            enqueue(
                connection, [(delivery_queue(each.queue, each.version), each.id) for each in requests if each.id in new]
            )
        return ids

    def ended(self, ids: Sequence[str]) -> Mapping[str, str | None]:
        """Return the outcomes of the ended work among the work with these ids; None for work that was cancelled.

        Raises:
            Exception: The error of the database.
        """
        with self.database.connect_once() as connection:
            return {row.id: row.outcome for row in connection.execute(self._ended, {"ids": ids})}

    @cached_property
    def _ended(self) -> Any:
        """Statement that reads outcomes; cached, because creating it takes longer than executing it."""
        sa, table = self.database.sa, self._table
        chosen = table.c.id.in_(sa.bindparam("ids", expanding=True))
        return sa.select(table.c.id, table.c.outcome).where(chosen, table.c.ended > 0)

    def of_run(self, run_id: str, *, outcomes: bool = False) -> Sequence[StepRow]:
        """Return the operators of a run that were requested from workers; see `StepTable.of_run`."""
        sa, table = self.database.sa, self._table
        outcome = table.c.outcome if outcomes else sa.null().label("outcome")
        columns = (table.c[name] for name in ("key", "queue", "worker", "created", "began", "ended"))
        query = sa.select(*columns, table.c.outcome.is_not(None).label("done"), outcome)
        return [
            StepRow(
                run_id,
                row.key,
                row.outcome,
                row.began or row.created,
                row.ended if row.done else 0.0,
                DONE if row.done else CANCELLED if row.ended else UNDER_WAY[bool(row.worker)],
                row.queue,
            )
            for row in self.database.rows(query.where(table.c.run_id == run_id))
        ]

    def forget(self, run_id: str, keys: Sequence[str]) -> None:
        """Delete the work for some operators of a run; workers stop it."""
        table = self._table
        self.database.change(self.database.sa.delete(table).where(table.c.run_id == run_id, table.c.key.in_(keys)))

    def cancel(self, run_id: str) -> None:
        """Cancel the unfinished work of a run; workers stop it."""
        table = self._table
        change = self.database.sa.update(table).where(table.c.run_id == run_id, table.c.ended == 0)
        self.database.change(change.values(ended=self.database.clock, request=""))

    # Workers

    @retried
    def claim(self, worker: str, ids: Sequence[str]) -> Sequence[Claim | None]:
        """Claim work for a worker; return None for work that has ended or does not exist.

        Work that another worker has claimed is only delivered again if that worker is silent: it counts as dead. A claim
        does not wait for the disk: if the server crashes and forgets it, its worker cannot record an outcome.
        """
        sa, table = self.database.sa, self._table
        died = sa.case((table.c.worker.in_(("", worker)), table.c.deaths), else_=table.c.deaths + table.c.worker + " ")
        change = sa.update(table).where(table.c.id.in_(ids), table.c.ended == 0)
        change = change.values(claim=table.c.claim + 1, worker=worker, deaths=died, began=self.database.clock)
        with self.database.engine.begin() as connection:
            connection.execute(sa.text("SET LOCAL synchronous_commit = off"))
            rows = connection.execute(change.returning(*(table.c[name] for name in Claim._fields)))
            claims = {row.id: Claim(*row)._replace(deaths=row.deaths.split()) for row in rows}
        return [claims.get(id_) for id_ in ids]

    @retried
    def end(self, worker: str, outcomes: Sequence[tuple[Claim, str]]) -> Sequence[bool]:
        """Record outcomes and notify the drivers; return False for each claim that is not the latest of its work."""
        given = {
            "worker": worker,
            "ids": [claim.id for claim, _ in outcomes],
            "claims": [claim.claim for claim, _ in outcomes],
            "outcomes": [storable(outcome) for _, outcome in outcomes],
        }
        with self.database.connect_once() as connection:
            ended = {row.id for row in connection.execute(self._end, given)}
        return [claim.id in ended for claim, _ in outcomes]

    @cached_property
    def _end(self) -> Any:
        return self.database.sa.text(f"""
            WITH ended AS (
                UPDATE operad_work AS work SET outcome = given.outcome, ended = {self.database.clock}, request = ''
                FROM unnest(CAST(:ids AS text[]), CAST(:claims AS integer[]), CAST(:outcomes AS text[]))
                    AS given(id, claim, outcome)
                WHERE work.id = given.id AND work.claim = given.claim AND work.worker = :worker AND work.ended = 0
                RETURNING work.id, work.channel
            )
            SELECT id, pg_notify(channel, id) FROM ended
            """)  # noqa: S608 - the clock is an expression of ours

    def give_back(self, worker: str, claim: Claim) -> bool | None:
        """Give back work that is not finished: True if this claim was the latest, None if another one is, else False."""
        sa, table = self.database.sa, self._table
        unfinished = sa.and_(table.c.id == claim.id, table.c.ended == 0)
        mine = (unfinished, table.c.claim == claim.claim, table.c.worker == worker)
        if self.database.change(sa.update(table).where(*mine).values(worker="")):
            return True
        return None if self.database.rows(sa.select(table.c.id).where(unfinished)) else False

    def held(self, worker: str, ids: Sequence[str]) -> set[str]:
        """Return the ids of the unfinished work that a worker holds, among the work with these ids.

        Raises:
            Exception: The error of the database.
        """
        table = self._table
        chosen = (table.c.id.in_(ids), table.c.worker == worker, table.c.ended == 0)
        with self.database.connect_once() as connection:
            return set(connection.execute(self.database.sa.select(table.c.id).where(*chosen)).scalars())

    def waiting(self, queue: str, version: str, most: int) -> int:
        """Return the number of requests in a queue that wait for a worker of a version, up to `most`.

        Raises:
            Exception: The error of the database.
        """
        sa, table = self.database.sa, self._table
        chosen = (table.c.queue == queue, table.c.version == version, table.c.worker == "", table.c.ended == 0)
        query = sa.select(sa.func.count()).select_from(sa.select(table.c.id).where(*chosen).limit(most).subquery())
        with self.database.connect_once() as connection:
            return connection.execute(query).scalar()


def _row_of(request: Request, clock: Any) -> Mapping[str, object]:
    """Return the row of a new request."""
    given = {**request._asdict(), "request": storable(request.text)}
    del given["text"]
    return {**given, "claim": 0, "worker": "", "deaths": "", "created": clock, "began": 0.0, "ended": 0.0}


AT_ONCE = 500
"""Maximum number of operators that are read or deleted in one statement."""


class StepTable:
    """Records of operators of runs, which are in one table if drivers executed them, and in another if workers do."""

    def __init__(self, database: Database, tables: Tables, work: WorkTable) -> None:
        self.database = database
        self._tables = tables
        self._work = work

    def of_run(self, run_id: str, *, outcomes: bool = False) -> Sequence[StepRow]:
        """Return the operators of a run, in the order of their start.

        Args:
            outcomes: True to read the outcomes, too.

        Raises:
            InputError: An outcome is not a text.
        """
        sa, table = self.database.sa, self._tables.steps
        outcome = table.c.outcome if outcomes else sa.null().label("outcome")
        columns = (table.c.key, table.c.began, table.c.ended, table.c.outcome.is_not(None).label("done"), outcome)
        query = sa.select(*columns).where(table.c.run_id == run_id)
        rows = [
            StepRow(
                run_id,
                row.key,
                text_of(row.outcome, f"{run_id}:{row.key}") if outcomes and row.done else None,
                row.began,
                row.ended,
                DONE if row.done else UNDER_WAY[-1],
            )
            for row in self.database.rows(query)
        ]
        return sorted([*rows, *self._work.of_run(run_id, outcomes=outcomes)], key=lambda row: row.began)

    def forget(self, run_id: str, keys: Sequence[str]) -> None:
        """Delete the records of some operators of a run."""
        table = self._tables.steps
        delete = self.database.sa.delete(table).where(table.c.run_id == run_id)
        self.database.change(*(delete.where(table.c.key.in_(batch)) for batch in batched(keys)))
        for batch in batched(keys):
            self._work.forget(run_id, batch)


def batched(items: Sequence[str], most: int = AT_ONCE) -> Iterator[list[str]]:
    """Return slices of a list with at most `most` items, to limit the length of statements."""
    return (list(items[first : first + most]) for first in range(0, len(items), most))


def taken_over(run_id: str) -> InputError:
    """Return the error for a run that another process has taken over."""
    return InputError(f"run {run_id!r} is driven by another process now, which continues it")


@dataclass(frozen=True, slots=True)
class StoredStep:
    """Stored record of an operator's work in a run.

    Attributes:
        outcome: Outcome of the work; None until it has finished.
        began: Time at which the work started or, while it waits, was put into a queue; in seconds since the epoch.
        ended: Time at which the work finished; 0 until then.
        waits: True while the work waits in a queue.
    """

    key: str
    outcome: Outcome | None
    began: float = 0.0
    ended: float = 0.0
    waits: bool = False

    @property
    def seconds(self) -> float:
        """Duration in seconds; 0 until the work has finished."""
        return max(0.0, self.ended - self.began)


def kept_step(row: StepRow) -> StoredStep:
    """Return an operator of a run for display; an outcome that cannot be read is shown as an error."""
    outcome = None
    if row.outcome is not None:
        try:
            outcome = Codec().load(row.outcome, Outcome)
        except InputError as error:
            outcome = Outcome(error=error)
    return StoredStep(row.key, outcome, row.began, row.ended if outcome else 0.0, waits=row.status == "ENQUEUED")
