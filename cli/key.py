"""`operad key`: a new key of a server."""

from __future__ import annotations

import secrets
import sys
from typing import Annotated

import typer

from operad.server.http.keys import digest, read_name


def key(
    name: Annotated[str, typer.Argument(help="Name of the key, for the access log.")],
    expert: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Expert that the key may use; by default all. Repeatable.")
    ] = None,
    own_runs: Annotated[bool, typer.Option("--own-runs", help="Let the key see only runs that it began.")] = False,
) -> None:
    """Make a key for operad serve: its entry goes to stdout, the key itself to stderr.

    operad key web --own-runs >> keys.yaml

    The entry holds only the hash of the key: the key is shown once.
    """
    made = secrets.token_urlsafe(32)
    print(f"{read_name(name)}:\n  sha256: {digest(made.encode())}")
    if expert:
        print(f"  experts: [{', '.join(map(_quoted, expert))}]")
    if own_runs:
        print("  own_runs: true")
    sys.stdout.flush()
    print(f"key of {name}, shown once: {made}", file=sys.stderr)


def _quoted(text: str) -> str:
    from operad.runtime.values.valid_json import to_json

    return to_json(text)
