"""Steps of a file: all contents that it had in the studio, stored on disk.

A step refers to the step before it. A change after going back starts another branch; steps are removed only if there
are more than `MOST_STEPS`, and those with a name never.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from operad.runtime.durable.database_names import state_folder
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import unwritable, write_whole

MOST_STEPS = 500
"""Maximum number of stored steps of a file without those that have a name; the oldest are removed when the file is opened."""

MAX_NAME = 80
"""Maximum number of characters of the name of a version."""

MAX_LINE = 4_000
"""Maximum number of characters of a line that is read."""

Kind = Literal["edit", "chat", "outside", "open"]


class Step(NamedTuple):
    """Step in the history of a file.

    Attributes:
        number: Number of the step, from 1.
        title: Description of the change.
        at: Time, in seconds since the epoch.
        kind: Origin of the change.
        before: Number of the step that this one changed; 0 for none.
        digest: Digest of the content after the step.
        draft: True while the stored content is equivalent to the file's, but lacks its comments and layout.
        name: Name of this version; empty for none.
    """

    number: int
    title: str
    at: float
    kind: Kind
    before: int
    digest: str
    draft: bool = False
    name: str = ""


def digest_of(data: bytes) -> str:
    """Return the digest of a content."""
    return hashlib.sha256(data).hexdigest()


class History:
    """Steps of one file, in a folder of their own.

    Args:
        root: Folder of the histories of all files; by default in the user's folder for program state.

    Attributes:
        folder: Folder of the history.
    """

    def __init__(self, file: Path, root: Path | None = None) -> None:
        self.folder = (root or state_folder() / "studio") / digest_of(str(file).encode("utf-8", "replace"))[:32]
        self._lines = self.folder / "steps.jsonl"
        self.steps: list[Step] = []
        self.current = 0
        self._read()

    @property
    def step(self) -> Step | None:
        """Current step of the file; None before the first."""
        return self.at(self.current)

    def at(self, number: int) -> Step | None:
        """Return a step; None if it does not exist."""
        return next((step for step in self.steps if step.number == number), None)

    def add(self, title: str, kind: Kind, data: bytes, at: float, *, draft: bool = False) -> Step:
        """Store a content as the next step, and make it the current one.

        Raises:
            InputError: The folder cannot be written.
        """
        number = self.steps[-1].number + 1 if self.steps else 1
        step = Step(number, title[:300], at, kind, self.current, digest_of(data), draft)
        self._store(step._asdict(), data)
        self.steps.append(step)
        self.current = number
        return step

    def settle(self, number: int, data: bytes) -> None:
        """Replace the draft content of a step by the content of the file.

        Raises:
            InputError: The folder cannot be written.
        """
        digest = digest_of(data)
        self._store({"settled": number, "digest": digest}, data)
        self._replace_draft(number, digest)

    def _replace_draft(self, number: int, digest: str) -> None:
        self.steps = [
            step._replace(digest=digest, draft=False) if step.number == number else step for step in self.steps
        ]

    def _store(self, line: dict[str, Any], data: bytes) -> None:
        blob = self.folder / digest_of(data)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not blob.exists():
                write_whole(str(blob), data)
            self._append_line(line)
        except OSError as error:
            raise InputError(f"{self.folder}: the history cannot be kept: {error.strerror or error}") from error

    def move(self, number: int) -> None:
        """Make another step the current one.

        Raises:
            InputError: The step does not exist.
        """
        if self.at(number) is None:
            raise InputError(f"there is no step {number}")
        with suppress(OSError):
            self._append_line({"current": number})
        self.current = number

    def name(self, number: int, name: str) -> None:
        """Give the content after a step a name; an empty one takes it away.

        Raises:
            InputError: The step does not exist, the name is too long, or the folder cannot be written.
        """
        if self.at(number) is None:
            raise InputError(f"there is no step {number}")
        if len(name) > MAX_NAME:
            raise InputError(f"the name has {len(name):,} characters; the maximum is {MAX_NAME}")
        try:
            self._append_line({"named": number, "name": name})
        except OSError as error:
            raise InputError(f"{self.folder}: the history cannot be kept: {error.strerror or error}") from error
        self._set_name(number, name)

    def _set_name(self, number: int, name: str) -> None:
        self.steps = [step._replace(name=name) if step.number == number else step for step in self.steps]

    def content(self, number: int) -> bytes:
        """Return the content of the file after a step.

        Raises:
            InputError: The step does not exist, or its content is missing or was changed.
        """
        step = self.at(number)
        if step is None:
            raise InputError(f"there is no step {number}; there are {len(self.steps)}")
        try:
            data = (self.folder / step.digest).read_bytes()
        except OSError as error:
            raise InputError(f"step {number}: its content is gone: {error.strerror or error}") from error
        if digest_of(data) != step.digest:
            raise InputError(f"step {number}: its content was changed in {self.folder}")
        return data

    def keep_aside(self, data: bytes) -> Path:
        """Store a content beside the steps, and return its path.

        Raises:
            InputError: The content cannot be stored.
        """
        path = self.folder / f"aside-{digest_of(data)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise unwritable(str(self.folder), error) from error
        write_whole(str(path), data)
        return path

    @property
    def settled(self) -> Step | None:
        """Current step, or the latest one before it whose content is not a draft."""
        step = self.step
        while step is not None and step.draft:
            step = self.at(step.before)
        return step

    @property
    def back(self) -> Step | None:
        """Target of undo."""
        return self.at(self.step.before) if self.step else None

    @property
    def forth(self) -> Step | None:
        """Target of redo: the latest step that changed the current one."""
        return next((step for step in reversed(self.steps) if step.before == self.current and self.current), None)

    def _append_line(self, line: dict[str, Any]) -> None:
        with self._lines.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def _read(self) -> None:
        """Read the stored steps; invalid lines, such as an incomplete last one, are skipped."""
        with suppress(OSError, UnicodeDecodeError):
            for line in self._lines.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError, TypeError, KeyError, AttributeError):
                    self._apply_line(json.loads(line[:MAX_LINE]))
        if len(self.steps) > MOST_STEPS:
            older, newer = self.steps[:-MOST_STEPS], self.steps[-MOST_STEPS:]
            named = [step for step in older if step.name]
            if len(named) < len(older):
                self._remove_older([*named, *newer])

    def _apply_line(self, line: dict[str, Any]) -> None:
        if "current" in line:
            self.current = int(line["current"]) if self.at(int(line["current"])) else self.current
            return
        if "settled" in line:
            self._replace_draft(int(line["settled"]), str(line["digest"]))
            return
        if "named" in line:
            self._set_name(int(line["named"]), str(line["name"])[:MAX_NAME])
            return
        step = Step(**line)
        known = self.steps[-1].number if self.steps else 0
        if len(step.digest) == 64 and step.digest.isalnum():
            step = step._replace(number=known + 1, before=min(int(step.before), known))
            self.steps.append(step)
            self.current = step.number

    def _remove_older(self, kept: Sequence[Step]) -> None:
        unused = {step.digest for step in self.steps} - {step.digest for step in kept}
        numbers = {step.number: number for number, step in enumerate(kept, 1)}
        self.steps = [step._replace(number=numbers[step.number], before=numbers.get(step.before, 0)) for step in kept]
        self.current = numbers.get(self.current, 1)
        lines = [json.dumps(step._asdict()) for step in self.steps] + [json.dumps({"current": self.current})]
        with suppress(InputError):
            write_whole(str(self._lines), ("\n".join(lines) + "\n").encode())
            for digest in unused:
                with suppress(OSError):
                    (self.folder / digest).unlink()
