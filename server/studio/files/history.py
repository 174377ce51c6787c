"""The steps of a file: each content that it had in the studio, kept on disk, so that nothing is lost.

A step names the step before it. A change that is made after going back is another branch; no step is removed until
there are too many.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from operad.configs.written import write_whole
from operad.runtime.durable.places import state_folder
from operad.runtime.values.errors import InputError

MOST_STEPS = 500
"""Steps of a file that are kept; the oldest are forgotten when the file is opened."""

MAX_LINE = 4_000

Kind = Literal["edit", "chat", "outside", "open"]


class Step(NamedTuple):
    """A step.

    Attributes:
        number: Its number, from 1.
        title: Description of the change.
        at: Time, in seconds since the epoch.
        kind: Origin of the change.
        before: Number of the step that it changes; 0 for none.
        digest: Digest of the file's content after it.
        draft: True while that content says the same as the file will, but without its comments and its layout.
    """

    number: int
    title: str
    at: float
    kind: Kind
    before: int
    digest: str
    draft: bool = False


def digest_of(data: bytes) -> str:
    """Return the digest of a content."""
    return hashlib.sha256(data).hexdigest()


class History:
    """Steps of one file, in a folder of their own.

    Args:
        file: The file.
        root: Folder of the histories of all files; by default in the user's folder for program state.
    """

    def __init__(self, file: Path, root: Path | None = None) -> None:
        self._folder = (root or state_folder() / "studio") / digest_of(str(file).encode("utf-8", "replace"))[:32]
        self._lines = self._folder / "steps.jsonl"
        self.steps: list[Step] = []
        self.current = 0
        self._read()

    @property
    def step(self) -> Step | None:
        """The step that the file is at; None before the first."""
        return self.at(self.current)

    def at(self, number: int) -> Step | None:
        """Return a step; None where there is none."""
        return next((each for each in self.steps if each.number == number), None)

    def add(self, title: str, kind: Kind, data: bytes, at: float, *, draft: bool = False) -> Step:
        """Keep a content as the next step, and be there.

        Raises:
            InputError: The folder cannot be written.
        """
        number = self.steps[-1].number + 1 if self.steps else 1
        step = Step(number, title[:300], at, kind, self.current, digest_of(data), draft)
        self._keep(step._asdict(), data)
        self.steps.append(step)
        self.current = number
        return step

    def settle(self, number: int, data: bytes) -> None:
        """Keep the content of the file in place of the draft of a step.

        Raises:
            InputError: The folder cannot be written.
        """
        digest = digest_of(data)
        self._keep({"settled": number, "digest": digest}, data)
        self._settle(number, digest)

    def _settle(self, number: int, digest: str) -> None:
        self.steps = [
            each._replace(digest=digest, draft=False) if each.number == number else each for each in self.steps
        ]

    def _keep(self, line: dict[str, Any], data: bytes) -> None:
        blob = self._folder / digest_of(data)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not blob.exists():
                write_whole(str(blob), data)
            self._note(line)
        except OSError as error:
            raise InputError(f"{self._folder}: the history cannot be kept: {error.strerror or error}") from error

    def move(self, number: int) -> None:
        """Be at another step.

        Raises:
            InputError: There is none.
        """
        if self.at(number) is None:
            raise InputError(f"there is no step {number}")
        with suppress(OSError):
            self._note({"current": number})
        self.current = number

    def content(self, number: int) -> bytes:
        """Return the content of the file after a step.

        Raises:
            InputError: There is no such step, or its content is gone.
        """
        step = self.at(number)
        if step is None:
            raise InputError(f"there is no step {number}; there are {len(self.steps)}")
        try:
            data = (self._folder / step.digest).read_bytes()
        except OSError as error:
            raise InputError(f"step {number}: its content is gone: {error.strerror or error}") from error
        if digest_of(data) != step.digest:
            raise InputError(f"step {number}: its content was changed in {self._folder}")
        return data

    def keep_aside(self, data: bytes) -> Path:
        """Keep a content beside the steps, and return where."""
        path = self._folder / f"aside-{digest_of(data)}"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(str(path), data)
        return path

    @property
    def settled(self) -> Step | None:
        """The step that the file is at, or the last one before it whose content is not a draft."""
        step = self.step
        while step is not None and step.draft:
            step = self.at(step.before)
        return step

    @property
    def back(self) -> Step | None:
        """The step that undo leads to."""
        return self.at(self.step.before) if self.step else None

    @property
    def forth(self) -> Step | None:
        """The step that redo leads to: the last one made from here."""
        return next((each for each in reversed(self.steps) if each.before == self.current and self.current), None)

    def _note(self, line: dict[str, Any]) -> None:
        with self._lines.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def _read(self) -> None:
        """Read what was kept; a last line that was cut off is left out."""
        with suppress(OSError, UnicodeDecodeError):
            for line in self._lines.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError, TypeError, KeyError, AttributeError):
                    self._take(json.loads(line[:MAX_LINE]))
        if len(self.steps) > MOST_STEPS:
            self._forget(self.steps[-MOST_STEPS:])

    def _take(self, said: dict[str, Any]) -> None:
        if "current" in said:
            self.current = int(said["current"]) if self.at(int(said["current"])) else self.current
            return
        if "settled" in said:
            self._settle(int(said["settled"]), str(said["digest"]))
            return
        step = Step(**said)
        known = self.steps[-1].number if self.steps else 0
        if len(step.digest) == 64 and step.digest.isalnum():
            step = step._replace(number=known + 1, before=min(int(step.before), known))
            self.steps.append(step)
            self.current = step.number

    def _forget(self, kept: Sequence[Step]) -> None:
        gone = {each.digest for each in self.steps} - {each.digest for each in kept}
        first = kept[0].number - 1
        self.steps = [each._replace(number=each.number - first, before=max(0, each.before - first)) for each in kept]
        self.current = max(1, self.current - first)
        lines = [json.dumps(each._asdict()) for each in self.steps] + [json.dumps({"current": self.current})]
        with suppress(InputError):
            write_whole(str(self._lines), ("\n".join(lines) + "\n").encode())
            for digest in gone:
                with suppress(OSError):
                    (self._folder / digest).unlink()
