"""`operad chats`: list and remove stored conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from operad.cli.columns import local_time, print_table
from operad.runtime.durable.database_names import state_folder
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import unwritable
from operad.runtime.workflow.chat_store import ChatStore

ChatDatabase = Annotated[
    Path | None,
    typer.Option(
        "--db",
        metavar="FILE",
        help="The SQLite file that keeps conversations; by default one in your folder for state.",
    ),
]


def chats(
    db: ChatDatabase = None,
    forget: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Remove the conversation with this id. Repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List kept conversations, or remove some of them.

    Exit status: 0, or 2 if there is no such file or conversation.
    """
    store = open_store(db, new=False)
    try:
        if forget:
            store.forget(*forget)
        kept = store.chats()
    finally:
        store.close()
    if as_json:
        print(
            json.dumps([{"id": chat.id, "messages": chat.messages, "written": chat.written} for chat in kept], indent=2)
        )
    elif kept:
        print_table(
            ("id", "messages", "last message"),
            [(chat.id, str(chat.messages), local_time(chat.written, "%Y-%m-%d %H:%M")) for chat in kept],
        )
    else:
        print("no conversations")


def own_store() -> Path:
    """Return the file that keeps conversations by default."""
    return state_folder() / "chats.sqlite"


def open_store(db: Path | None, *, new: bool) -> ChatStore:
    """Return the store of conversations for a command.

    Args:
        db: File given to the command; None for the default file.
        new: True if the file may be created.

    Raises:
        InputError: The file or its folder does not exist, the file is a folder, or the default folder cannot be created.
    """
    path = own_store() if db is None else db.expanduser()
    if db is None and new:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(str(path.parent), error) from error
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file in it")
    if not new and not path.is_file():
        raise InputError(
            f"{path}: there is no such file, so there are no conversations; operad chat FILE --chat ID starts one"
        )
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {str(path.parent)!r}; make it, or name another file: --db FILE")
    return ChatStore(path)
