"""`operad studio`: draw workflows, change them by words and run them, in the browser."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from operad.cli.trust_store import Trusted, TrustStore
from operad.cli.view import serve_page
from operad.configs.capabilities import Capabilities
from operad.runtime.values.errors import InputError

PORT = 8310


def studio(
    place: Annotated[
        Path,
        typer.Argument(metavar="FILE|FOLDER", help="A workflow file, or a folder of them. By default, this folder."),
    ] = Path(),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the studio on this machine; 0 for any free port.")
    ] = PORT,
    services_file: Annotated[
        Path | None,
        typer.Option("--services", help="YAML file of external services: tools, models and knowledge of workflows."),
    ] = None,
    trust: Trusted = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the browser.")] = False,
) -> None:
    """Draw workflows, change them by words and run them, in the browser.

    Every change is written to its file at once and can be undone; a file changed by another program is shown as it is
    then. The history of files, their runs, and the list of those opened lately, are kept in the user's folder for program
    state.

    The studio's address goes to stderr, with a token that is required for access. It is served to this machine alone,
    until Ctrl-C. Models come from the environment, as for operad run; a file that needs trust runs if it is trusted
    (operad trust); --trust is for the services file. Exit status: 0, or 2 if there is no such file or folder, or the
    port is in use.
    """
    from operad.cli.generate_run import services_for
    from operad.server.studio.files.folder import Folder
    from operad.server.studio.server import Studio

    path = place.expanduser()
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; operad studio FOLDER makes new files in a folder")
    if not (path.is_dir() or path.is_file()):
        raise InputError(f"{path}: is neither a folder nor a regular file")
    services = partial(services_for, services_file, trust)
    services()  # reports faults of the file and missing trust before the page opens
    folder = Folder(path) if path.is_dir() else Folder(path.absolute().parent, path.name)
    site = Studio(folder, trust=_is_trusted, services=services)
    where = f"#file={quote(folder.only)}" if folder.only else ""
    serve_page("studio", site, port, where, no_browser=no_browser)


def _is_trusted(capabilities: Capabilities) -> bool:
    """Return True if the user trusts what a file can do; False if the store of trust cannot be read."""
    try:
        return TrustStore.of_user().holds(capabilities)
    except InputError:
        return False
