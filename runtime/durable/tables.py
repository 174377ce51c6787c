"""Definitions of Operad's tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

VERSION = 8
"""Version of the tables, to be raised with each change of them. Tables of other versions are refused."""


class Tables:
    """Operad's tables as SQLAlchemy objects.

    Args:
        sa: The package `sqlalchemy`, which is installed with an extra and so not imported here.
    """

    def __init__(self, sa: Any) -> None:
        self._sa = sa
        self._statements: dict[str, tuple[Sequence[str], str]] = {}
        text, number, real, boolean = sa.Text, sa.Integer, sa.Double, sa.Boolean

        def column(name: str, kind: Any, **options: Any) -> Any:
            return sa.Column(name, kind, nullable=False, **options)

        self.all = sa.MetaData()
        self.schema = sa.Table("operad_schema", self.all, column("version", number, primary_key=True))
        self.runs = sa.Table(
            "operad_runs",
            self.all,
            column("run_id", text, primary_key=True),
            *(column(name, text) for name in ("workflow", "source", "graph", "call", "state")),
            column("driver", text, index=True),
            column("drives", number),
            column("created", real),
            column("updated", real),
            column("done", number),
            column("total", number),
            *(column(name, text) for name in ("usage", "verdict", "result", "error", "failed")),
            column("cancelling", boolean),
            column("origin", text, server_default=""),
            column("started_by", text, server_default=""),
        )
        sa.Index("ix_operad_runs_created", self.runs.c.created, self.runs.c.run_id)
        sa.Index("ix_operad_runs_state", self.runs.c.state, self.runs.c.updated)
        self.steps = sa.Table(
            "operad_steps",
            self.all,
            column("run_id", text, primary_key=True),
            column("key", text, primary_key=True),
            sa.Column("outcome", text),
            column("began", real),
            column("ended", real),
        )
        self.events = sa.Table(
            "operad_events",
            self.all,
            column("run_id", text, primary_key=True),
            column("part", number, primary_key=True),
            column("events", sa.LargeBinary),
        )
        self.parts = sa.Table(
            "operad_parts",
            self.all,
            *(column(name, text, primary_key=True) for name in ("run_id", "key", "name")),
            column("value", text),
        )
        self.executors = sa.Table(
            "operad_executors",
            self.all,
            column("id", text, primary_key=True),
            *(column(name, text) for name in ("kind", "process", "version", "queues", "doing")),
            column("concurrency", number),
            column("started", real),
            column("beat", real),
            column("max_silence", real),
        )
        self.questions = sa.Table(
            "operad_questions",
            self.all,
            *(column(name, text, primary_key=True) for name in ("run_id", "step", "id")),
            column("text", text),
            column("schema", text),
            sa.Column("answer", text),
            column("asked", real),
            column("answered", real),
            column("by", text, server_default=""),
            column("tool_call", text, server_default=""),
        )
        self.work = sa.Table(
            "operad_work",
            self.all,
            column("id", text, primary_key=True),
            *(column(name, text) for name in ("run_id", "key", "queue", "version", "channel", "request")),
            column("claim", number),
            *(column(name, text) for name in ("worker", "deaths")),
            sa.Column("outcome", text),
            *(column(name, real) for name in ("created", "began", "ended")),
            sa.UniqueConstraint("run_id", "key"),
        )
        unfinished = self.work.c.ended == 0
        sa.Index("ix_operad_work_waiting", self.work.c.queue, postgresql_where=unfinished, sqlite_where=unfinished)
        self.schedules = sa.Table(
            "operad_schedules",
            self.all,
            column("name", text, primary_key=True),
            column("fired", real),
            column("run_id", text),
        )
        self.calls = sa.Table(
            "operad_calls",
            self.all,
            *(column(name, text) for name in ("key", "kind", "caller")),
            column("at", real),
            column("until", real),
            column("tokens", sa.BigInteger),
            sa.Index("operad_calls_counted", "key", "kind", "until"),
        )

        self.memories = sa.Table(
            "operad_memories",
            self.all,
            *(column(name, text, primary_key=True) for name in ("namespace", "key")),
            column("text", text),
            column("updated", real),
            column("expires", real),
            column("model", text),
            column("vector", sa.LargeBinary),
            sa.Index("ix_operad_memories_expires", "expires"),
        )

    def statements(self, dialect: Any) -> tuple[Sequence[str], str]:
        """Return the statements that create the tables, and a query without rows that names each column.

        They are compiled once for a dialect, because that takes longer than to execute them.
        """
        if dialect.name not in self._statements:
            sa, every = self._sa, self.all.sorted_tables
            create = [sa.schema.CreateTable(table) for table in every]
            create += [sa.schema.CreateIndex(index) for table in every for index in sorted(table.indexes, key=str)]
            query = sa.select(*(sa.exists(sa.select(*table.c).where(sa.false())) for table in every))
            create, query = [str(each.compile(dialect=dialect)) for each in create], str(query.compile(dialect=dialect))
            self._statements[dialect.name] = create, query
        return self._statements[dialect.name]


@cache
def tables(sa: Any) -> Tables:
    """Return the tables, which the databases of a process share."""
    return Tables(sa)
