"""Names of databases, and their default locations."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operad.runtime.durable.file_store import FileStore
from operad.runtime.values.errors import InputError, MissingExtraError
from operad.runtime.values.pip import pip_install

if TYPE_CHECKING:
    from sqlalchemy import URL

SQLITE, POSTGRES = "sqlite", "postgresql"


_IN_MEMORY = "SQLite in memory is not durable; name a file: sqlite:///runs.db"


def state_folder() -> Path:
    """Return the user's folder for program state: ``$XDG_STATE_HOME/operad``, or ``~/.local/state/operad``."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "state"
    return base / "operad"


def database_url(given: str | Path | None) -> URL:
    """Return the URL of a database named by the user: a URL of PostgreSQL or SQLite, or the path of an SQLite file.

    Args:
        given: The name; None for ``runs.sqlite`` in the user's state folder.

    Raises:
        InputError: The name is neither a URL nor a path.
        MissingExtraError: The extra ``durable`` is not installed.
    """
    make_url = sqlalchemy().engine.make_url
    text = str(state_folder() / "runs.sqlite") if given is None else str(given)
    if "://" not in text:
        return make_url(f"{SQLITE}:///").set(database=str(_path_of(text)))
    try:
        url: URL = make_url(text)
    except Exception as error:
        raise InputError(
            "the URL of the database cannot be read; write postgresql://user:password@host/name"
        ) from error
    kind = url.get_backend_name()
    if kind == "postgres":
        url, kind = url.set(drivername=POSTGRES), POSTGRES
    if kind not in (SQLITE, POSTGRES):
        raise InputError(f"{display_name(url)}: runs are kept in {SQLITE} or {POSTGRES}, not in {kind}")
    if kind == SQLITE and url.host:
        raise InputError(f"{text}: the URL of a file needs three slashes; write {SQLITE}:///{text.split('://', 1)[1]}")
    if kind == SQLITE and url.database in (None, "", ":memory:"):
        raise InputError(_IN_MEMORY)
    return url.set(drivername=kind)


def with_workers(url: URL) -> URL:
    """Return the URL of a database that serves workers.

    Raises:
        InputError: The database is an SQLite file.
    """
    if url.get_backend_name() == SQLITE:
        raise InputError(
            f"workers need PostgreSQL, and {display_name(url)} is an SQLite file; to start a local server, and to see its "
            "URL for --db: operad postgres"
        )
    return url


def _path_of(text: str) -> Path:
    """Return the absolute path of an SQLite file that the user gave as a path."""
    if not text.strip():
        raise InputError("--db: name a file, or a URL such as postgresql://user:password@host/database")
    if text == ":memory:":
        raise InputError(_IN_MEMORY)
    if re.match(r"(sqlite|postgres(ql)?)(\+\w+)?:", text):
        raise InputError(f"{text}: a URL needs two slashes after the colon; write {SQLITE}:///runs.db for a file here")
    path = Path(text).expanduser().absolute()
    if path.is_dir():
        raise InputError(f"{text}: is a folder; name a file in it")
    return path


def file_store(given: str | Path | None, url: URL) -> FileStore:
    """Return the store for files of the runs in a database.

    Args:
        given: A folder, or an address that machines share; None for a folder beside the SQLite file, or for one
            of this database in the user's state folder.

    Raises:
        InputError: The address is not valid for a store.
    """
    if given is None:
        is_file = url.get_backend_name() == SQLITE
        own = state_folder() / "files" / _short_digest(url.set(password=None).render_as_string())
        return FileStore(Path(f"{url.database}.files") if is_file else own)
    return FileStore(given, cache=state_folder() / "cache" / _short_digest(str(given)))


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def display_name(url: URL) -> str:
    """Return a database URL for display: without its password; a file as its path."""
    if url.get_backend_name() == SQLITE:
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True)


def database_option(url: URL) -> str:
    """Return the option for commands on a database; a URL, which may hold a password, is abbreviated."""
    return f" --db {shlex.quote(display_name(url)) if url.get_backend_name() == SQLITE else 'URL'}"


def sqlalchemy() -> Any:
    """Return the module `sqlalchemy`.

    Raises:
        MissingExtraError: The extra ``durable`` is not installed.
    """
    try:
        return import_module("sqlalchemy")
    except ImportError as error:
        raise MissingExtraError(f"durable runs need the extra `durable`: {pip_install('durable')}") from error
