"""Faults of an SQLite file, one at a time: the n-th connection, write, commit or sync of a run fails, for every n.

After an error that can pass, the run goes on; after another one, it ends with an error, and is resumed with the right
result. A sync that fails leaves open whether the commit counts, so both cases are tried.
"""

import sqlite3
import threading
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from amounts import amount

pytest.importorskip("sqlalchemy")

import sqlalchemy
import sqlalchemy.event

from operad import Job, Workflow, operator
from operad.runtime import OperadError
from operad.runtime.durable import database
from operad.runtime.durable.ledger import Ledger

PASSES, STAYS = "disk I/O error", "database or disk is full"
CONNECT, WRITE, COMMIT, SYNCED = "connect", "write", "commit", "commit that counts"
FAULTS = [
    (CONNECT, "unable to open database file"),
    *((kind, text) for kind in (WRITE, COMMIT, SYNCED) for text in (PASSES, STAYS)),
]
ADVICE = {"unable to open database file": "change their permissions"}
"""Advice of an error, if not to run the same command again."""
MOST = 200


class Fault:
    """Fault of the n-th call of a kind."""

    def __init__(self, kind, at, text=""):
        self.kind, self.at, self.text = kind, at, text
        self.calls, self._counting = 0, threading.Lock()

    def __call__(self, kind):
        if kind != self.kind:
            return
        with self._counting:
            self.calls += 1
            is_now = self.calls == self.at
        if is_now:
            raise sqlite3.OperationalError(self.text)


class FaultyCursor(sqlite3.Cursor):
    connection: Any  # a connection with the method `check`, as `injected` makes it

    def execute(self, statement, *args):
        self.connection.check(statement)
        return super().execute(statement, *args)

    def executemany(self, statement, *args):
        self.connection.check(statement)
        return super().executemany(statement, *args)


@contextmanager
def injected(fault):
    """Have all connections of SQLAlchemy meet a fault."""

    class Faulty(sqlite3.Connection):
        def __init__(self, *args, **options):
            fault(CONNECT)
            super().__init__(*args, **options)

        def check(self, statement):
            if statement.split()[0] not in ("SELECT", "PRAGMA", "BEGIN"):
                fault(WRITE)

        def cursor(self, factory: Any = FaultyCursor) -> Any:
            return super().cursor(factory)

        def commit(self):
            try:
                fault(COMMIT)
            except sqlite3.OperationalError:
                self.rollback()
                raise
            super().commit()
            fault(SYNCED)

    def connect(dialect, record, args, options):
        options["factory"] = Faulty

    sqlalchemy.event.listen(sqlalchemy.Engine, "do_connect", connect)
    try:
        yield
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "do_connect", connect)


class Trial:
    """A run in a new file."""

    def __init__(self, path):
        self.path, self.executed = path, []

    def run(self):
        @operator
        async def first(job: Job) -> str:
            self.executed.append("first")
            return f"a{job.goal}"

        @operator
        async def second(first: str) -> str:
            self.executed.append("second")
            return f"{first}b"

        with Ledger(self.path) as ledger:
            text = Workflow(first >> second, name="two", durable=ledger).run("x", run_id="run").text
            kept, events = ledger.run("run"), ledger.events("run")
        return text, (kept.state, kept.driver, kept.done), [type(event).__name__ for event in events]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(database, "_PAUSE", 0.001)


@pytest.mark.parametrize(("kind", "text"), FAULTS)
def test_a_run_has_the_right_result_whichever_call_fails(kind, text, tmp_path):
    right = Trial(tmp_path / "right.sqlite").run()
    assert right[:2] == ("axb", ("finished", "", 2))
    at = 0
    for at in count(1, amount(4, 1)):
        trial, fault = Trial(tmp_path / f"{at}.sqlite"), Fault(kind, at, text)
        with injected(fault):
            found, said = None, ""
            try:
                found = trial.run()
            except OperadError as error:
                said = str(error)
        if found is None:
            assert f"{at}.sqlite: cannot be used for runs: {text}" in said, f"fault {at}"
            assert ADVICE.get(text, "run the same command again") in said, f"fault {at}: {said}"
            assert text != PASSES or not trial.executed, (
                f"fault {at}: {said}"
            )  # a file that is opened is not waited for
        again = trial.run()
        assert again[:2] == right[:2], f"fault {at}"
        assert found is None or found == right, f"fault {at}"
        assert found is None or trial.executed == ["first", "second"], f"fault {at}"
        assert len(trial.executed) <= 3, f"fault {at}"  # only an operator whose outcome was not stored runs again
        if fault.calls < at:
            break
        assert at < MOST
    assert at > 2
