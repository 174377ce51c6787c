"""What typed nodes reach outside of a workflow: endpoints, tools, other workflows, the folder that files go to."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from operad.operators.conversations import Conversations
from operad.operators.sandbox.code import CodeLimits
from operad.operators.sandbox.template import TemplateLimits
from operad.operators.web.endpoints import ImageModel, SpeechModel
from operad.operators.web.fetch import PUBLIC_WEB, Fetched, Guard, fetch
from operad.operators.web.search import SearchProvider
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.tools.tool import Tool, ToolSource
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import FileDescriptor
from operad.runtime.workflow.workflow import Workflow

Fetch = Callable[[str, Guard], Awaitable[Fetched]]
"""Fetches an address as far as a guard lets it."""


async def _fetch(url: str, guard: Guard) -> Fetched:
    """Fetch an address, from the web."""
    return await fetch(url, guard=guard)


@dataclass(frozen=True)
class Services:
    """What is outside of a workflow, for its nodes. Nothing is reached that is not named here.

    Attributes:
        folder: Where nodes write files; a fresh temporary folder where none is given.
        search: Who searches the web.
        images: Who makes images from text.
        speech: Who reads text aloud; None for the embedded voice.
        guard: Which addresses may be fetched, how large and how slow they may be.
        fetch: Who fetches addresses.
        code: What code may use.
        templates: What templates may use.
        tools: Tools, and sources of tools such as MCP servers; nodes call tools by their names.
        knowledge: Knowledge bases, by the names that nodes call them.
        workflows: Workflows that may run inside others, by the names that nodes call them.
        conversations: The variables that last from one run of a session to the next.
    """

    folder: Path | None = None
    search: SearchProvider | None = None
    images: ImageModel | None = None
    speech: SpeechModel | None = None
    guard: Guard = PUBLIC_WEB
    fetch: Fetch = _fetch
    code: CodeLimits = field(default_factory=CodeLimits)
    templates: TemplateLimits = field(default_factory=TemplateLimits)
    tools: Sequence[Tool | ToolSource] = ()
    knowledge: Mapping[str, KnowledgeBase] = field(default_factory=dict[str, KnowledgeBase])
    workflows: Mapping[str, Workflow] = field(default_factory=dict[str, Workflow])
    conversations: Conversations = field(default_factory=Conversations)

    @cached_property
    def _folder(self) -> Path:
        return self.folder or Path(tempfile.mkdtemp(prefix="operad-"))

    @property
    def made(self) -> Path | None:
        """The folder that files were written to; None where none was."""
        return vars(self).get("_folder")

    def write(self, name: str, suffix: str, data: bytes) -> FileDescriptor:
        """Write a file that a node made.

        Args:
            name: What to call it, without folders; a number is added where there is one of that name.
            suffix: How the name ends, with the dot.
            data: Its content.

        Raises:
            InputError: It cannot be written.
        """
        stem = _UNSAFE.sub("_", name)[:100].strip("._") or "file"
        number = 1
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            while True:
                path = self._folder / (f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}")
                try:
                    with path.open("xb") as file:
                        file.write(data)
                except FileExistsError:
                    number += 1
                else:
                    return FileDescriptor.of(path)
        except OSError as error:
            raise InputError(f"{self._folder}: {stem}{suffix} cannot be written: {error.strerror or error}") from error


_UNSAFE = re.compile(r"[^\w.-]+")
