"""`operad secrets`: list, set and delete named secrets."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import sys
from typing import Annotated

import typer

from operad.operators.mcp_login import check_address, log_in, login_name
from operad.operators.secrets import MAX_VALUE, check_secret, find_secret, known_name, secret_store, secret_value
from operad.runtime.values.errors import InputError
from operad.runtime.values.secret import Secret
from operad.runtime.values.text import printable

app = typer.Typer(
    help="List, set and delete the secrets that requests and MCP servers get; values are never shown.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the secret, such as SHOP_API_KEY.")]


@app.callback()
def list_secrets(context: typer.Context, as_json: AsJson = False) -> None:
    """List, set and delete the secrets that requests and MCP servers get; values are never shown.

    Secrets are kept in the system's keyring, or in the file that OPERAD_SECRETS names. Without a command, the names are
    listed. An environment variable of the same name takes precedence. Exit status: 0, or 2 bad input.
    """
    if context.invoked_subcommand is not None:
        return
    store = secret_store()
    names = store.names()
    if as_json:
        secrets = [{"name": name, "overridden": bool(os.environ.get(name))} for name in names]
        print(json.dumps({"store": store.where, "secrets": secrets}, indent=2, ensure_ascii=False))
        return
    for name in names:
        print(printable(name) + ("  (the environment variable takes precedence)" if os.environ.get(name) else ""))
    if not names:
        print(f"{printable(store.where)}: no secrets")


@app.command("set")
def set_secret(name: Name, as_json: AsJson = False) -> None:
    """Set a secret; its value is asked for at the terminal, or read from stdin."""
    check_secret(name, "a value")
    value = check_secret(name, _read_value(name))
    store = secret_store()
    store.set(name, value)
    _print_result({"set": name, "store": store.where}, f"set: {name} in {store.where}", as_json)


@app.command("delete")
def delete_secret(name: Name, as_json: AsJson = False) -> None:
    """Delete a secret."""
    store = secret_store()
    store.delete(known_name(name, store.names(), store.where))
    _print_result({"deleted": name, "store": store.where}, f"deleted: {name} from {store.where}", as_json)


@app.command("login")
def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the MCP server, such as https://host/mcp.")],
    client_id: Annotated[
        str, typer.Option(metavar="ID", help="Id of a client that is registered at the server; by default, one is.")
    ] = "",
    client_secret: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the secret that holds the secret of that client.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Log in to an MCP server by OAuth; its tokens are kept with the secrets, and renewed when they expire.

    Open the address that is printed in a browser. If the browser runs on another machine, paste the address to which it
    was sent at the end. Servers with `oauth: true` use the login.
    """
    from operad.cli.ask import Lines  # not at import: it takes longer than the other commands

    check_address(url)
    lines = Lines.of_stdin()
    told = (
        "open this address in a browser, and log in there (from another machine, paste the address of its last page):"
    )

    def show(address: str) -> None:
        print(f"{told}\n{printable(address)}", file=sys.stderr, flush=True)

    secret = secret_value(Secret(client_secret), find_secret) if client_secret else ""
    asyncio.run(log_in(url, show, lines.next, client_id=client_id, client_secret=secret))
    name, where = login_name(url), secret_store().where
    _print_result({"set": name, "store": where}, f"logged in: {name} in {where}", as_json)


def _print_result(fields: dict[str, str], line: str, as_json: bool) -> None:
    print(json.dumps(fields, indent=2, ensure_ascii=False) if as_json else printable(line))


def _read_value(name: str) -> str:
    """Return the value from the terminal, which does not show it, or from stdin."""
    try:
        if sys.stdin is not None and sys.stdin.isatty():
            return getpass.getpass(f"{name} (not shown): ", stream=sys.stderr)
        return "" if sys.stdin is None else sys.stdin.read(MAX_VALUE + 2)
    except EOFError:
        raise InputError(f"{name}: no value was given") from None
    except UnicodeDecodeError:
        raise InputError(f"{name}: the value is not UTF-8") from None
