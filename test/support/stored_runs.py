# ruff: noqa: S608 - the statements are our own
"""Runs that tests store and read: of one workflow, and of operators that workers executed.

`test/unit/runtime/durable/data/runs_of_workers.sql.gz` holds two runs whose operators are in the tables of dbos:
``finished``, which has finished, and ``unfinished``, whose process was killed at its operator ``check`` when ``fetch`` and
two of the three items of the map ``each`` had finished.
"""

import os
import sqlite3
import time
from contextlib import closing
from gzip import decompress
from pathlib import Path

import sqlalchemy

from operad.runtime import DurableWorkflow, Job, Map, WorkflowMessage
from operad.runtime.durable import Ledger
from operad.runtime.durable.tables import VERSION, Tables
from operad.runtime.testing import ScriptedReasoner

FILE = Path(__file__).parents[1] / "unit/runtime/durable/data/runs_of_workers.sql.gz"
OF_RUNS = ("operad_runs", "operad_events", "operad_questions", "operad_steps")
OF_STEPS = ("workflow_status", "workflow_input", "workflow_output")
ITEMS = ["x", "y", "z"]


class Step:
    """Operator that records its executions; one of them ends the process at an item."""

    def __init__(self, name, ran=None, dies_at=None):
        self._name, self._ran, self._dies_at = name, ran, dies_at

    def get_id(self):
        return self._name

    async def execute(self, reasoner, job, workflow_messages=None, previous_expert_outputs=None, lesson=None):
        text = workflow_messages[0].scratchpad if workflow_messages else ""
        if text and text == self._dies_at:
            os._exit(9)
        if self._ran is not None:
            self._ran.append(f"{self._name} {text}".strip())
        return WorkflowMessage(scratchpad=f"{self._name} of {text or job.goal}", outputs={"of": text})


class Judge(Step):
    """Evaluator that accepts the result."""


def workflow(ledger, ran=None, dies_at=None):
    """Return the workflow of both runs."""
    flow = DurableWorkflow(ledger.url.render_as_string(), name="before")
    flow.keep_in(ledger)
    fetch, write = Step("fetch", ran), Step("write", ran)
    each = Map("each", Step("check", ran, dies_at), over="list", concurrency=1)
    flow.add_operator(fetch)
    flow.add_operator(each, [fetch])
    flow.add_operator(write, [each])
    flow.set_evaluator(Judge("judge", ran))
    return flow


def job():
    """Return the job of both runs."""
    return Job(goal="Monday", inputs={"list": [*ITEMS]})


def execute(path, run_id, ran=None, dies_at=None, limit=1.0):
    """Start or resume a run."""
    ledger = Ledger(path, limit=limit)
    try:
        return workflow(ledger, ran, dies_at).execute(job(), ScriptedReasoner([]), run_id=run_id)
    finally:
        ledger.close()


def restore_runs_of_workers(path):
    """Write the file of the two runs to this path, with the tables that it lacks."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(decompress(FILE.read_bytes()).decode().replace("kept_before", "stored_runs"))
        connection.execute("DROP TABLE operad_questions")
    engine, tables = sqlalchemy.create_engine(f"sqlite:///{path}"), Tables(sqlalchemy)
    with engine.begin() as connection:
        tables.all.create_all(connection)
        connection.execute(sqlalchemy.insert(tables.schema).values(version=VERSION))
    engine.dispose()


def fill(path: Path, count: int) -> None:
    """Copy the run ``finished`` until the file has a number of runs."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.create_function("unixepoch", 1, lambda _: time.time())
        there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        numbers = f"WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count - 1})"
        for table in (*OF_RUNS, *OF_STEPS):
            if table not in there:
                continue
            key = "run_id" if table in OF_RUNS else "workflow_uuid"
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            made = {key: f"'run-' || n || substr({key}, 9)", "created": "created + n", "updated": "updated + n"}
            if table == "workflow_status":
                made["owner_xid"] = made["creator_xid"] = "NULL"
            values = ", ".join(made.get(column, f'"{column}"') for column in columns)
            names = ", ".join(f'"{column}"' for column in columns)
            connection.execute(
                f"INSERT INTO {table} ({names}) {numbers} SELECT {values} FROM {table}, number "
                f"WHERE {key} = 'finished' OR {key} LIKE 'finished:%'"
            )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
