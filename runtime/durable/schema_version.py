"""Version of Operad's own tables, and the migrations between versions.

The table ``operad_schema`` holds one row with the version. Version 1 had no such table: a database with the table
``operad_runs`` alone has version 1. A migration is never changed after a release: databases of all versions exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from operad.runtime.values.errors import InputError

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        "CREATE TABLE operad_schema (version INTEGER NOT NULL PRIMARY KEY)",
        "INSERT INTO operad_schema (version) VALUES (1)",
        "CREATE TABLE operad_events (run_id TEXT NOT NULL, part INTEGER NOT NULL, drive INTEGER NOT NULL, "
        "events {bytes} NOT NULL, PRIMARY KEY (run_id, part))",
        "CREATE INDEX ix_operad_runs_created ON operad_runs (created, run_id)",
        "CREATE INDEX ix_operad_runs_state ON operad_runs (state, updated)",
    ),
    (
        "CREATE TABLE operad_steps (run_id TEXT NOT NULL, key TEXT NOT NULL, outcome TEXT, began {real} NOT NULL, "
        "ended {real} NOT NULL, PRIMARY KEY (run_id, key))",
    ),
    ("ALTER TABLE operad_questions ADD COLUMN tool_call TEXT NOT NULL DEFAULT ''",),
)
"""Statements that migrate from each version to the next, beginning with version 1."""

VERSION = 1 + len(MIGRATIONS)
"""Version of the tables that this release reads and writes."""

_TYPES: Mapping[bool, Mapping[str, str]] = {
    True: {"bytes": "BLOB", "real": "DOUBLE"},
    False: {"bytes": "BYTEA", "real": "DOUBLE PRECISION"},
}


def statements_from(version: int, *, sqlite: bool) -> list[str]:
    """Return the statements that bring tables of a version to `VERSION`."""
    steps = [statement.format_map(_TYPES[sqlite]) for step in MIGRATIONS[version - 1 :] for statement in step]
    return [*steps, f"UPDATE operad_schema SET version = {VERSION}"]  # noqa: S608 - a number


def check_not_newer(name: str, version: int) -> None:
    """Check that this release knows the version of a database's tables.

    Raises:
        InputError: A later release wrote the tables.
    """
    if version > VERSION:
        raise InputError(
            f"{name}: a later version of operad wrote this database: its tables have version {version}, and this operad "
            f"knows versions up to {VERSION}; upgrade operad (pip install --upgrade 'operad[durable]'), or name another "
            "database with --db"
        )
