"""`operad trust`: trust the code that files name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from operad.cli.trust_store import TrustStore
from operad.configs.code import Code
from operad.configs.flow import is_configuration, read_file
from operad.configs.loader import found_file, preview
from operad.configs.optimise.tasks import code_in_tasks
from operad.configs.printable import printable
from operad.runtime.values.errors import InputError


def trust(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="YAML files of experts, and files of tasks.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the files that are trusted, with their code.")] = False,
    revoke: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Trust the code of this file no longer. Repeatable."),
    ] = None,
) -> None:
    """Trust the code that files name, so that operad run does not ask again; --list and --revoke manage the list.

    The code is listed and not run. Trust holds as long as neither the file nor the code changes. It is kept in
    operad/trust.json in your folder for configuration. Exit status: 0, or 2 bad input.
    """
    if not (files or list_ or revoke):
        raise InputError("name the files to trust; --list shows what is trusted")
    store = TrustStore.of_user()
    for revoked_file in revoke or ():
        if not store.revoke(revoked_file):
            raise InputError(f"{revoked_file}: is not trusted; operad trust --list shows what is")
        _print_lines(f"not trusted any more: {revoked_file}")
    for file in files or ():
        if code := _code_of(file):
            store.grant(code)
            _print_lines(f"trusted: {file}", code.lines)
        else:
            _print_lines(f"{file}: names no code, and needs no trust")
    if list_:
        entries = store.entries()
        for digest, entry in entries.items():
            _print_lines(f"{entry.get('file')}  {digest[:12]}  {entry.get('granted')}", entry.get("code") or ())
        if not entries:
            _print_lines("nothing is trusted")


def _print_lines(line: str, more: Iterable[object] = ()) -> None:
    print("\n".join(printable(text) for text in (line, *(f"  {text}" for text in more))))


def _code_of(file: str) -> Code | None:
    """Return the code that a file names; None for a workflow of typed nodes, which names none."""
    from operad.flows.formats.table import find_format  # not at import: formats take long

    with found_file(file) as path:
        data = read_file(path)
    if is_configuration(data):
        return preview(file).code
    found = find_format(data)
    return None if found is not None and found.runs else code_in_tasks(file)
