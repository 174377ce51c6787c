# ruff: noqa: S608 - the statements are our own
"""Runs of one workflow that tests store and read."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from operad.runtime import DurableWorkflow, Job, Map, WorkflowMessage
from operad.runtime.durable import Ledger
from operad.runtime.testing import ScriptedReasoner

OF_RUNS = ("operad_runs", "operad_events", "operad_questions", "operad_steps")
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


def fill(path: Path, count: int) -> None:
    """Copy the run ``finished`` until the file has a number of runs."""
    with closing(sqlite3.connect(path)) as connection, connection:
        numbers = f"WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {count - 1})"
        for table in OF_RUNS:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            made = {"run_id": "'run-' || n", "created": "created + n", "updated": "updated + n"}
            values = ", ".join(made.get(column, f'"{column}"') for column in columns)
            names = ", ".join(f'"{column}"' for column in columns)
            connection.execute(
                f"INSERT INTO {table} ({names}) {numbers} SELECT {values} FROM {table}, number "
                "WHERE run_id = 'finished'"
            )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
