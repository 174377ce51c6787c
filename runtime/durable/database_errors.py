"""Errors of the database of runs: which are temporary, and explanations with what to do."""

from __future__ import annotations

import platform
import sqlite3
from importlib import metadata

from operad.runtime.durable.database_names import sqlalchemy

_ENDED_IDLE = "25P03"
_MISSING = ("42P01", "42703")
"""PostgreSQL's codes for a missing table and a missing column."""

_REMEDIES = {
    "file is not a database": "the file was not changed: name another one",
    "malformed": "the file is damaged, and running the command again does not help: restore it from a copy, or save what "
    "is readable with `sqlite3 FILE .recover`",
    "readonly": "this user may not write the file or its folder: change their permissions, run the command as their "
    "owner, or name another database with --db; operad runs list and show need no such permission",
    "unable to open database": "this user may not open the file, or may not write into its folder: change their "
    "permissions, run the command as their owner, or copy the file with its -wal file to another folder",
    "permission denied for": "the role of the URL lacks rights on the tables of runs: grant them, or use their owner",
    "read-only transaction": "the server or the role only permits reading: use a URL of the primary server",
}
"""Remedies for errors that running the same command again does not mend, by a part of the message."""


def explanation(error: Exception, name: str, *, is_sqlite: bool) -> str:
    """Return the message for an error of a database: what happened, and what to do."""
    errors = sqlalchemy().exc
    if isinstance(error, (errors.IntegrityError, errors.DataError)):  # the value is refused every time
        return (
            f"{name}: the database refused a row: {first_line(error)}; this is a bug in operad or dbos, and "
            f"running the command again does not help: please report it, with {_versions(is_sqlite)}; earlier runs "
            "are not lost"
        )
    if is_missing(error):
        return (
            f"{name}: a table or column is missing: {first_line(error)}; the file was deleted, or changed by a program "
            "other than operad: restore it from a copy, or name another database with --db"
        )
    text = f"{name}: cannot be used for runs: {first_line(error)}"
    for sign, remedy in _REMEDIES.items():
        if sign in text:
            return f"{text}; {remedy}"
    if not is_sqlite and is_unreachable(error):
        return f"{text}; check that the server runs, and that the address is right"
    return (
        f"{text}; kept runs are not lost: check that the database exists and has space left, and run the same command "
        "again"
    )


def _versions(is_sqlite: bool) -> str:
    """Return the versions of the software involved, for a bug report."""
    packages = [f"{package} {metadata.version(package)}" for package in ("operad", "dbos", "sqlalchemy")]
    sqlite = [f"SQLite {sqlite3.sqlite_version}"] if is_sqlite else []
    return ", ".join([f"Python {platform.python_version()}", *sqlite, *packages])


def is_temporary(error: Exception) -> bool:
    """Return True for a temporary error: the connection broke, or the server is starting."""
    if getattr(getattr(error, "orig", None), "sqlstate", None) == _ENDED_IDLE:
        return True
    if is_missing(error):
        return False
    text = str(error).lower()
    lost = getattr(error, "connection_invalidated", False) or type(error).__name__ in (
        "OperationalError",
        "TimeoutError",
    )
    return lost and not any(
        sign in text
        for sign in (
            "disk is full",
            "no space",
            "unable to open database",
            "readonly",
            "password authentication",
            "does not exist",
            "not a database",
            "malformed",
            "could not decode",
        )
    )


def is_unreachable(error: Exception) -> bool:
    """Return True if no server answered; False if one refused the connection with a reason."""
    text = str(error).lower()
    return (
        any(sign in text for sign in ("connection failed", "resolve host", "timeout expired")) and "fatal" not in text
    )


def is_missing(error: Exception) -> bool:
    """Return True for the error of a missing table or column, which is permanent."""
    orig = getattr(error, "orig", None)
    text = first_line(error).lower()
    return getattr(orig, "sqlstate", None) in _MISSING or any(
        sign in text for sign in ("no such table", "no such column", "has no column named")
    )


def is_locked(error: Exception) -> bool:
    """Return True if another process has been writing into the file for longer than the busy timeout."""
    return "database is locked" in str(getattr(error, "orig", None) or error)


def first_line(error: Exception) -> str:
    """Return the first line of a database error, without the statement and its values."""
    return next(iter(str(getattr(error, "orig", None) or error).strip().splitlines()), type(error).__name__)
