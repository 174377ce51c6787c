"""External services of typed nodes: endpoints, tools, other workflows, the folder for files."""

from __future__ import annotations

import re
import tempfile
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from operad.operators.sandbox.snippet import CodeLimits
from operad.operators.sandbox.template import TemplateLimits
from operad.operators.secrets import FindSecret, find_secret
from operad.operators.variables import files_in
from operad.operators.web.endpoints import ImageModel, SpeechModel
from operad.operators.web.fetch import PUBLIC_WEB, Fetched, Guard, fetch
from operad.operators.web.search import SearchProvider
from operad.runtime.knowledge.knowledge import KnowledgeBase
from operad.runtime.models.model import Model
from operad.runtime.reasoning.reasoner import Reasoner
from operad.runtime.tools.tool import Tool, ToolSource, as_tools
from operad.runtime.tools.toolkit import Tools
from operad.runtime.values.errors import InputError
from operad.runtime.values.file import FileDescriptor, suffix_of
from operad.runtime.values.model_text import told
from operad.runtime.workflow.workflow import Workflow

# Conversations: variables that are kept between the runs of a session.

MAX_SESSIONS = 1_000
"""Maximum number of sessions with kept variables. A job without a session id is a session of its own, and nothing tells
that a session has ended, so a server would otherwise keep the variables of all runs."""


class Conversations:
    """Variables of conversations, in memory, by session and name.

    At most `MAX_SESSIONS` sessions are kept; the least recently used ones are removed.
    """

    def __init__(self) -> None:
        self._values: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._lock = Lock()

    def get(self, session_id: str) -> Mapping[str, Any]:
        """Return the kept variables of a session."""
        with self._lock:
            if session_id not in self._values:
                return {}
            self._values.move_to_end(session_id)
            return dict(self._values[session_id])

    def keep(self, session_id: str, values: Mapping[str, Any]) -> None:
        """Store values for the next run of a session; other variables of the session are unchanged."""
        with self._lock:
            self._values.setdefault(session_id, {}).update(values)
            self._values.move_to_end(session_id)
            if len(self._values) > MAX_SESSIONS:
                self._values.popitem(last=False)


Fetch = Callable[[str, Guard], Awaitable[Fetched]]
"""Function that fetches a URL, if the guard allows it."""


@dataclass(frozen=True)
class Sent:
    """Parts of a request other than its URL, with the values of its secrets.

    Attributes:
        params: Names and values of the query, which replace the query of the URL.
        secrets: Values of the secrets in the request, which are sent to the first origin only.
    """

    method: str = "GET"
    params: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


Send = Callable[[str, Sent, Guard], Awaitable[Fetched]]
"""Function that sends a request, if the guard allows it."""


async def _send(url: str, sent: Sent, guard: Guard) -> Fetched:
    """Send a request to the web; the default of `Services.send`."""
    if sent.params:
        base, mark, fragment = url.partition("#")
        url = f"{base.partition('?')[0]}?{urlencode(sent.params)}{mark}{fragment}"
    return await fetch(url, method=sent.method, headers=sent.headers, body=sent.body, guard=guard, secrets=sent.secrets)


async def _fetch(url: str, guard: Guard) -> Fetched:
    """Fetch a URL from the web; the default of `Services.fetch`."""
    return await fetch(url, guard=guard)


@dataclass(frozen=True)
class Services:
    """External services of a workflow's nodes. Services that are not listed here are not accessible.

        services = Services(tools=[search], knowledge={"handbook": Documents("docs")})

    Attributes:
        folder: Folder for files of nodes; a fresh temporary folder by default.
        models: Models and reasoners by the names that nodes use; other nodes use the model of the run.
        search: Search engine for the web.
        images: Generator of images from text.
        speech: Generator of speech; None for the embedded voice.
        guard: Allowed hosts, and limits of requests.
        fetch: Function that fetches URLs.
        send: Function that sends all other requests.
        outside: Functions that replace those by which integrations reach the outside, by their names, such as ``comfyui``.
        code: Limits of code.
        templates: Limits of templates.
        tools: Functions, tools, and sources of tools such as MCP servers; nodes call tools by their names.
        knowledge: Knowledge bases, by the names that nodes use.
        workflows: Workflows that nodes may run, by the names that nodes use.
        conversations: Variables that last from one run of a session to the next.
        secrets: Function that returns the values of named secrets; by default from the environment, the keyring or
            a file.
    """

    folder: Path | None = None
    models: Mapping[str, Model | Reasoner | str] = field(default_factory=dict[str, "Model | Reasoner | str"])
    search: SearchProvider | None = None
    images: ImageModel | None = None
    speech: SpeechModel | None = None
    guard: Guard = PUBLIC_WEB
    fetch: Fetch = _fetch
    send: Send = _send
    outside: Mapping[str, Callable[..., Awaitable[Any]]] = field(
        default_factory=dict[str, Callable[..., Awaitable[Any]]]
    )
    code: CodeLimits = field(default_factory=CodeLimits)
    templates: TemplateLimits = field(default_factory=TemplateLimits)
    tools: Tools = ()
    knowledge: Mapping[str, KnowledgeBase] = field(default_factory=dict[str, KnowledgeBase])
    workflows: Mapping[str, Workflow] = field(default_factory=dict[str, Workflow])
    conversations: Conversations = field(default_factory=Conversations)
    secrets: FindSecret = find_secret

    @cached_property
    def known_tools(self) -> tuple[Tool | ToolSource, ...]:
        """Tools and sources, with functions converted to tools."""
        return as_tools(self.tools)

    async def send_for_code(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Fetched:
        """Send a request of a snippet, if the guard allows it.

        Raises:
            FetchError: The guard refuses the URL, or the host does not answer.
        """
        return await fetch(url, method=method, headers=headers, body=body, guard=self.guard)

    @cached_property
    def _folder(self) -> Path:
        return self.folder or Path(tempfile.mkdtemp(prefix="operad-"))

    @cached_property
    def _next_numbers(self) -> dict[tuple[str, str], int]:
        """The next number to try, by the stem and the suffix of a file name."""
        return {}

    @property
    def made(self) -> Path | None:
        """The folder in which files were written; None if no file was."""
        return vars(self).get("_folder")

    def write(self, name: str, suffix: str, data: bytes) -> FileDescriptor:
        """Write an output file of a node.

        Args:
            name: Name of the file, without folders and suffix; a number is added if the name is taken.
            suffix: Suffix of the name, with the dot.
            data: Content of the file.

        Raises:
            InputError: The file cannot be written.
        """
        stem = _UNSAFE.sub("_", name)[:100].strip("._") or "file"
        number = self._next_numbers.get((stem, suffix), 1)
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
                    self._next_numbers[stem, suffix] = number + 1
                    return FileDescriptor.of(path)
        except OSError as error:
            raise InputError(f"{self._folder}: {stem}{suffix} cannot be written: {error.strerror or error}") from error

    def kept_files(self, result: Any, name: str) -> list[FileDescriptor]:
        """Return the files in the result of a tool: those that it names, and its images and the like, which are written.

        Args:
            result: The result.
            name: Name of the files that have none of their own.

        Raises:
            InputError: A file cannot be written.
        """
        _, blobs = told(result)
        stems = [(Path(blob.name).stem or name, blob) for blob in blobs]
        written = [self.write(stem, suffix_of(blob.media_type), blob.data) for stem, blob in stems]
        return [*files_in(result), *written]


_UNSAFE = re.compile(r"[^\w.-]+")
"""Characters that are replaced in file names."""
