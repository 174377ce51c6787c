"""Files of events: one JSON object per line, as written by `operad run --events`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from operad.runtime.events import Event, read_event
from operad.runtime.values.errors import InputError

MAX_LINE = 64 * 2**20
"""Maximum length of a line, in bytes: an event with an operator's message."""


def line_of(event: Event) -> str:
    """Return an event as one line of JSON, with the line end."""
    return json.dumps(event.as_dict(), ensure_ascii=False, default=str) + "\n"


def may_be_written(path: Path) -> bool:
    """Return True if a file of events may be written to a path: nothing, an empty file or earlier events are there."""
    try:
        if not path.is_file():
            return True
        with path.open("rb") as file:
            first = file.readline(MAX_LINE)
        value: Any = json.loads(first or b'{"event": ""}')
    except OSError:
        return True  # writing reports the reason
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(cast("dict[str, Any]", value).get("event"), str)


@dataclass(slots=True)
class EventsFile:
    """A file of events that may still be written.

    Attributes:
        line: Number of lines that have been read.
        unknown: Number of lines with an event of an unknown type: of another version, or defined by a user.
    """

    path: Path
    line: int = 0
    unknown: int = 0
    _read: int = 0

    def events(self) -> Iterator[Event]:
        """Yield the events written since the last call. An incomplete last line is left for the next call.

        Raises:
            InputError: The file cannot be read, or a line is not an event.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                yield from self._new_events(file)
        except OSError as error:
            raise self._reading_error(error) from error

    @property
    def rest(self) -> int:
        """Number of bytes after the last complete line, which is being written or was cut off.

        Raises:
            InputError: The file cannot be read.
        """
        try:
            return self.path.stat().st_size - self._read
        except OSError as error:
            raise self._reading_error(error) from error

    def _new_events(self, file: BinaryIO) -> Iterator[Event]:
        while line := file.readline(MAX_LINE):
            is_whole = line.endswith(b"\n")
            if not is_whole and len(line) < MAX_LINE:
                return
            self.line += 1
            if not is_whole:
                raise self._line_error(f"is longer than {MAX_LINE // 2**20} MiB")
            self._read += len(line)
            if line.strip() and (event := self._event(line)):
                yield event

    def _event(self, line: bytes) -> Event | None:
        try:
            values: Any = json.loads(line)
            if not (isinstance(values, dict) and isinstance(cast("dict[str, Any]", values).get("event"), str)):
                raise ValueError("it has no field 'event'")
            event = read_event(cast("dict[str, Any]", values))
        except (ValueError, RecursionError) as error:
            raise self._line_error(f"is not an event: {str(error)[:200]}") from error
        self.unknown += event is None
        return event

    def _reading_error(self, error: OSError) -> InputError:
        return InputError(f"{self.path}: cannot be read: {error.strerror or error}")

    def _line_error(self, problem: str) -> InputError:
        return InputError(
            f"{self.path}: line {self.line} {problem}; give a file that operad run --events FILE.jsonl has written"
        )
