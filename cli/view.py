"""`operad view`, and the page beside `operad run --view`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import webbrowser
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from operad.cli.durable import Database, open_ledger
from operad.cli.follow import say
from operad.cli.progress import LONGEST_ERROR
from operad.runtime.values.errors import InputError, OperadError
from operad.runtime.values.text import short_line
from operad.runtime.workflow.workflow import Workflow

if TYPE_CHECKING:
    from operad.server.view.server import PageServer, Site

PORT = 8300

View = Annotated[bool, typer.Option("--view", help="Show the run on a page in the browser, too.")]
ViewPort = Annotated[
    int | None,
    typer.Option("--view-port", min=0, max=65535, help="With --view: port of the page. By default any free port."),
]


def port_of(view: bool, port: int | None) -> int | None:
    """Return the port for the page of a run; None for no page, 0 for any free port."""
    return 0 if view and port is None else port


def view(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A file written by operad run --events; with --db, the id of a durable run.",
        ),
    ] = None,
    db: Database = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page on this machine; 0 for any free port.")
    ] = PORT,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the browser.")] = False,
) -> None:
    """Show a run in the browser, from its events file or from a database; live while it runs.

    Without RUN, the page lists durable runs. There, questions can be answered and runs cancelled.

    The page's address goes to stderr, with a token that is required for access. It is served to this machine alone,
    until Ctrl-C. Exit status: 0, or 2 if there is no run to show, or the port is in use.
    """
    where, site = _site(run, db)
    serve_page("page", site, port, where, no_browser=no_browser)


def serve_page(name: str, site: Site, port: int, where: str, *, no_browser: bool) -> NoReturn:
    """Serve a site until Ctrl-C, with its address on stderr, and open it in the browser.

    Args:
        name: Word before the address.
        port: Port of the page; 0 for any free port.
        where: Path or fragment to open in the site.
        no_browser: True to leave the browser closed.

    Raises:
        InputError: The port cannot be used.
    """
    from operad.server.view.server import PageServer

    try:
        server = PageServer(site, port)
    except InputError as error:
        raise InputError(f"--port: {error}") from error
    with suppress(KeyboardInterrupt), server:
        heed_signals()
        url = f"{server.url}{where}"
        say(Console(stderr=True), f"{name}: {url}")
        if sys.stdout.isatty() and not no_browser and has_screen():
            webbrowser.open(url)
        stay()
    os._exit(0)  # do not wait for runs in progress, or for a database that does not respond


def _site(run: str | None, db: str | None) -> tuple[str, Site]:
    """Return the path to open in a site, and the site."""
    from operad.server.view.runs_page import LedgerCatalog
    from operad.server.view.server import RunPage, RunsPage
    from operad.server.view.sources import FileSource

    if run is not None and db is None:
        try:
            return "", RunPage(FileSource(Path(run)), Path(run).name)
        except InputError as error:
            raise InputError(f"{error}; for a stored run, give --db URL as well") from error
    from operad.runtime.durable.codec import Codec
    from operad.runtime.durable.database_names import display_name

    ledger = open_ledger(db)
    ledger.codec = Codec()  # files keep their stored addresses, and none is fetched
    site = RunsPage(LedgerCatalog(ledger), f"runs in {display_name(ledger.url)}")
    if run is None:
        ledger.runs(1)
        return "", site
    return f"runs/{ledger.run(run).run_id}/", site


@contextmanager
def page_of(workflow: Workflow, port: int, names: Mapping[str, str]) -> Generator[PageServer, None, None]:
    """Show a workflow's run on a page inside this context manager; at a terminal, the page then stays until Ctrl-C.

    Args:
        port: Port of the page; 0 for any free port.
        names: Names of operators, by their ids.

    Raises:
        InputError: The port cannot be used.
    """
    from operad.server.view.server import PageServer, live_page
    from operad.server.view.sources import LiveSource

    console = Console(stderr=True)
    site = live_page(workflow, LiveSource(workflow, end=_interrupt), names)
    try:
        server = PageServer(site, port)
    except InputError as error:
        raise InputError(f"--view-port: {error}") from error
    with server:
        say(console, f"page: {server.url}")
        try:
            yield server
        except (OperadError, typer.Exit) as end:
            if sys.stdout.isatty() and sys.stderr.isatty():
                if isinstance(end, OperadError):
                    say(console, short_line(str(end), LONGEST_ERROR))
                say(console, f"the page stays until Ctrl-C: {server.url}")
                with suppress(KeyboardInterrupt):
                    heed_signals()
                    stay()
            raise


def _interrupt() -> None:
    """Send SIGINT to the main thread, as Ctrl-C does."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def heed_signals() -> None:
    """Make Ctrl-C and SIGTERM raise KeyboardInterrupt."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def stay() -> None:
    """Wait for a KeyboardInterrupt."""
    while True:
        time.sleep(3600)


def has_screen() -> bool:
    """Return True if a browser can open outside the terminal."""
    return sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
