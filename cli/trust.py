"""`operad trust`: trust files in what they can do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from operad.cli.trust_store import TrustStore
from operad.configs.capabilities import Capabilities
from operad.configs.flow import is_configuration, read_file
from operad.configs.loader import found_file, preview
from operad.configs.optimise.tasks import capabilities_of_tasks
from operad.configs.read_capabilities import graph_capabilities
from operad.configs.services import capabilities_of_services
from operad.runtime.values.errors import InputError, InvalidError
from operad.runtime.values.text import printable


def trust(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Files of experts, workflows, services or tasks."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the files that are trusted, with what they can do.")
    ] = False,
    revoke: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Trust this file no longer. Repeatable."),
    ] = None,
) -> None:
    """Trust files in what they can do, so that operad run does not ask again; --list and --revoke manage the list.

    What a file can do is listed, and not done: run code, send keys and prompts to other endpoints than those of the
    environment, read and write outside of its folder, reach internal addresses. Trust holds until that list or the code
    changes. It is kept in operad/trust.json in your folder for configuration. Exit status: 0, or 2 bad input.
    """
    if not (files or list_ or revoke):
        raise InputError("name the files to trust; --list shows what is trusted")
    store = TrustStore.of_user()
    for revoked_file in revoke or ():
        if not store.revoke(revoked_file):
            raise InputError(f"{revoked_file}: is not trusted; operad trust --list shows what is")
        _print_lines(f"not trusted any more: {revoked_file}")
    for file in files or ():
        if capabilities := _capabilities_of(file):
            changes = store.changes(capabilities)
            store.grant(capabilities)
            _print_lines(f"trusted: {file}", [*capabilities.lines, *changes])
        else:
            _print_lines(f"{file}: needs no trust")
    if list_:
        entries = store.entries()
        for digest, entry in entries.items():
            _print_lines(f"{entry.get('file')}  {digest[:12]}  {entry.get('granted')}", entry.get("can") or ())
        if not entries:
            _print_lines("nothing is trusted")


def _print_lines(line: str, more: Iterable[object] = ()) -> None:
    print("\n".join(printable(text) for text in (line, *(f"  {text}" for text in more))))


def _capabilities_of(file: str) -> Capabilities:
    """Return what a file of experts, a workflow, or a file of services or tasks can do."""
    from operad.flows.formats.table import find_format, read  # not at import: formats take long

    with found_file(file) as path:
        data = read_file(path)
    if is_configuration(data):
        return preview(file).capabilities
    if find_format(data) is not None:
        return graph_capabilities(file, Path(file).parent, read(data, Path(file).name)[1])
    try:
        return capabilities_of_tasks(file)
    except InvalidError:
        return capabilities_of_services(Path(file))
