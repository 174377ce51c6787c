"""ChatStore: conversations in an SQLite file, a row for each message of the user with its answer."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from operad.runtime.values.arguments import short_repr
from operad.runtime.values.errors import InputError, did_you_mean
from operad.runtime.values.file import FileDescriptor
from operad.runtime.values.forks import ProcessLock, after_fork
from operad.runtime.values.message import Turn
from operad.runtime.values.sqlite_file import FileKind, SqliteFile
from operad.runtime.values.text import whole

_logger = logging.getLogger(__name__)

APPLICATION_ID = 0x6F706163
"""Application id in the header of an SQLite file of conversations: "opac"."""

_CHATS = FileKind(
    name="a store of chats",
    application_id=APPLICATION_ID,
    version=2,
    tables=(
        "CREATE TABLE turns (chat TEXT NOT NULL, number INTEGER NOT NULL, message TEXT NOT NULL, answer TEXT NOT NULL, "
        "summary TEXT, written REAL NOT NULL, files TEXT, PRIMARY KEY (chat, number)) WITHOUT ROWID",
    ),
    upgrades={1: ("ALTER TABLE turns ADD COLUMN files TEXT",)},
    private=True,  # conversations are private
)

_FILES = TypeAdapter(tuple[FileDescriptor, ...])

_answering: set[tuple[object, str]] = set()
"""Conversations of this process in which a message is being answered, each as its store and its id."""

_answering_lock = ProcessLock()
after_fork(_answering.clear)


@dataclass(frozen=True, slots=True)
class KeptChat:
    """Conversation in a store.

        flow.chat("ada", store="chats.db").send("hello")
        with closing(ChatStore("chats.db")) as store:
            chat: KeptChat
            for chat in store.chats():
                print(chat.id, chat.messages)

    Attributes:
        id: The conversation's id.
        messages: Number of messages of the user, each of which has an answer.
        written: Time at which the last message was written, in seconds since the epoch.
    """

    id: str
    messages: int
    written: float


class ChatStore:
    """Store of conversations, by id: in an SQLite file that several processes can share, or in memory.

        store = ChatStore("chats.db")
        flow.chat("user-42", store=store).send("My name is Ada.")
        [kept.id for kept in store.chats()]  # ['user-42']
        store.forget("user-42")

    A message and its complete answer are written in one transaction. A crash loses at most the message that is being
    answered.

    Args:
        path: The file, which is created when it is first needed; None for memory.

    Raises:
        InputError: `path` is not a path. On first use: the file has another format or version, or is not writable.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        if not isinstance(path, str | Path | None) or path == "" or "://" in str(path):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"store: expected the path of an SQLite file, such as 'chats.db', or None; got {short_repr(path)}"
            )
        self._file = SqliteFile(path, _CHATS)

    def chats(self) -> list[KeptChat]:
        """Return the conversations, sorted by their newest message, the newest first."""
        with self._file.connection() as connection:
            rows = connection.execute(
                f"SELECT {_text('chat')}, count(*), CAST(max(written) AS REAL) FROM turns GROUP BY chat "  # noqa: S608
                "ORDER BY max(written) DESC, chat"
            ).fetchall()
        return [KeptChat(*row) for row in rows]

    def forget(self, *ids: str) -> None:
        """Remove conversations.

        Raises:
            InputError: There is no conversation with one of these ids. No conversation was removed then.
        """
        with self._file.transaction() as connection:
            known = [row[0] for row in connection.execute("SELECT DISTINCT chat FROM turns")]
            for chat in ids:
                if chat not in known:
                    raise InputError(f"{self._file.path}: no chat has the id {chat!r}{did_you_mean(chat, known)}")
            connection.executemany("DELETE FROM turns WHERE chat = ?", [(chat,) for chat in ids])

    def close(self) -> None:
        """Close the file, which is opened again on the next use; conversations in memory are lost."""
        self._file.close()

    @contextmanager
    def single_turn(self, chat: str) -> Generator[None, None, None]:
        """Exclude other messages of a conversation in this process, also those of other objects for the same file.

        Raises:
            InputError: Another message is being answered.
        """
        path = self._file.path
        key = (id(self) if path == ":memory:" else os.path.realpath(path), chat)
        with _answering_lock:
            if key in _answering:
                raise InputError(
                    f"chat {chat!r}: a message is being answered; wait for its answer, and send the next then"
                )
            _answering.add(key)
        try:
            yield
        finally:
            _answering.discard(key)

    def turns(self, chat: str) -> list[Turn]:
        """Return all turns of a conversation, the oldest first, without summaries."""
        with self._file.connection() as connection:
            rows = connection.execute(
                f"SELECT {_text('message')}, {_text('answer')}, {_text('files')} FROM turns WHERE chat = ? ORDER BY number",  # noqa: S608
                (chat,),
            ).fetchall()
        return [turn for row in rows for turn in _turns(*row)]

    def latest(self, chat: str) -> tuple[int, list[Turn]]:
        """Return the number of the last message (0 for none), and the last summary followed by the turns after it."""
        last, turns = 0, list[Turn]()
        with self._file.connection() as connection:
            rows = connection.execute(
                f"SELECT number, CAST(summary AS TEXT), {_text('message')}, {_text('answer')}, {_text('files')} FROM turns "  # noqa: S608
                "WHERE chat = :chat AND number >= "
                "(SELECT coalesce(max(number), 0) FROM turns WHERE chat = :chat AND summary IS NOT NULL) ORDER BY number",
                {"chat": chat},
            ).fetchall()
        for number, summary, *row in rows:
            last = number
            turns += _turns(*row) if summary is None else [Turn(role="summary", text=summary)]
        return last, turns

    def add(self, chat: str, number: int, message: Turn, answer: str) -> None:
        """Write a message of the user and its answer.

        Raises:
            InputError: `number` is not the next number, because another program has changed the conversation.
        """
        files = _FILES.dump_json(message.files).decode() if message.files else None
        row = (chat, number, whole(message.text), whole(answer), None, time.time(), files)
        with self._file.transaction() as connection:
            last = connection.execute("SELECT coalesce(max(number), 0) FROM turns WHERE chat = ?", (chat,)).fetchone()
            if last[0] != number - 1:
                raise InputError(
                    f"chat {chat!r}: it was changed elsewhere while this message was answered (it has {last[0]} messages, "
                    f"not {number - 1}); this message and its answer are not kept: send it again"
                )
            connection.execute("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def summarize(self, chat: str, number: int, summary: str) -> None:
        """Write a summary of all messages up to and including this number."""
        with self._file.transaction() as connection:
            connection.execute(
                "UPDATE turns SET summary = ? WHERE chat = ? AND number = ?", (whole(summary), chat, number)
            )


def _text(column: str) -> str:
    """Return an SQL expression for a column as text, whatever type another program wrote into the file."""
    return f"CAST(ifnull({column}, '') AS TEXT)"


def _turns(message: str, answer: str, files: str) -> tuple[Turn, Turn]:
    return Turn(role="user", text=message, files=_files(files)), Turn(role="assistant", text=answer)


def _files(stored: str) -> tuple[FileDescriptor, ...]:
    """Return the files of a message, unless another program has written something else."""
    try:
        return _FILES.validate_json(stored or "[]")
    except ValueError:
        _logger.warning("the files of a message in a store of chats cannot be read, and are left out")
        return ()
