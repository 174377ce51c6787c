"""Files in a prompt: texts within a budget, and images and documents as they are."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from operad.runtime.models.messages import Blob
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import IMAGE_TYPES, PDF, FileDescriptor, read_for_model
from operad.runtime.values.text import cut, fence

_logger = logging.getLogger(__name__)

MAX_ATTACHED = 8
"""Maximum number of images and documents in a prompt, and in a tool's result."""

_TEXT_TYPES = {"application/json", "application/xml", "application/x-sh", "application/sql", "application/javascript"}


class ShownFiles:
    """Files that a prompt shows; the files that are shown first are the first to be shown whole.

    Args:
        budget: Maximum length in characters of all texts.
        takes: Types of the images and documents that the model takes.
    """

    def __init__(self, budget: int, takes: Collection[str]) -> None:
        self._budget = self._left = budget
        self._takes = takes
        self._attached = 0

    @property
    def has_attached(self) -> bool:
        """True if an image or a document is attached."""
        return bool(self._attached)

    def show(self, files: Iterable[FileDescriptor]) -> tuple[str, list[Blob]]:
        """Return names and texts of the files of a message, and the images and documents to attach to it."""
        attached: list[Blob] = []
        shown = [
            f"### {file.name} ({file.mime_type}, {file.size:,} bytes)\n{self._content(file, attached)}"
            for file in files
        ]
        return "\n\n".join(shown), attached

    def _content(self, file: FileDescriptor, attached: list[Blob]) -> str:
        """Return the text of a file, or a note in place of it; an image or a document is added to `attached`."""
        if file.mime_type in (*IMAGE_TYPES, PDF):
            return self._attach(file, attached)
        is_known = file.mime_type != "application/octet-stream"
        if is_known and not (file.mime_type.startswith("text/") or file.mime_type in _TEXT_TYPES):
            return self._hidden(file, "not text, not shown", "it is not text, nor a type that models take")
        if self._left <= 0:
            return self._hidden(file, "not shown: the files before it fill the prompt")
        try:
            text = file.read_text()
        except InputError as error:
            return self._hidden(file, f"not shown: {_without_folder(file, error)}")
        if len(text) > self._left:
            warning = "%s: the model is shown %s of %s characters, because files may take %s in a prompt"
            _logger.warning(warning, file.name, f"{self._left:,}", f"{len(text):,}", f"{self._budget:,}")
        shown = fence(cut(text, self._left))
        self._left -= len(text)
        return shown

    def _attach(self, file: FileDescriptor, attached: list[Blob]) -> str:
        kind, what = ("image", "an image") if file.mime_type in IMAGE_TYPES else ("document", "a document")
        if file.mime_type not in self._takes:
            remedy = "set its vision to True" if kind == "image" else "read it with the node `document-extractor`"
            return self._hidden(
                file, f"{what}; this model cannot be shown {kind}s", f"use a model that takes {kind}s, or {remedy}"
            )
        if self._attached == MAX_ATTACHED:
            return self._hidden(file, f"{what}, not shown: {MAX_ATTACHED} others are")
        try:
            data, media_type = read_for_model(file)
        except InputError as error:
            return self._hidden(file, f"not shown: {_without_folder(file, error)}")
        self._attached += 1
        attached.append(Blob(data=data, media_type=media_type, name=file.name))
        return f"(attached below, as number {len(attached)})"

    def _hidden(self, file: FileDescriptor, told: str, reason: str = "") -> str:
        """Return the note for the model in place of a file, after a warning for the user."""
        _logger.warning("%s: the model is not shown this file: %s", file.name, reason or told)
        return f"({told})"


def _without_folder(file: FileDescriptor, error: InputError) -> str:
    """Return the text of an error without the folder of the file, which a model need not know."""
    return str(error).replace(str(file.path), file.name)
