"""The studio over HTTP: bound to this machine, behind a token in its address.

Files are opened by `data/open`; every change is one of the operations of `operad.flows.edit`, sent to `data/apply`.
`data/changes` streams the changes that other tabs and other programs make.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from importlib.resources import files
from mimetypes import guess_type
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from operad.configs.capabilities import Trust
from operad.configs.flow import MAX_BYTES
from operad.configs.services import services_of_environment
from operad.flows.edit import difference, read_operations
from operad.operators.services import Services
from operad.runtime.durable.tables import Retention
from operad.runtime.models.model import Model
from operad.runtime.values.errors import InvalidError, MissingExtraError, OperadError
from operad.runtime.values.pip import pip_install
from operad.runtime.values.valid_json import to_json
from operad.server.studio.experts import graph as experts
from operad.server.studio.export import export, targets
from operad.server.studio.file_json import changes_json, document
from operad.server.studio.files.folder import Folder, as_rows
from operad.server.studio.files.new_files import examples, new_file
from operad.server.studio.files.open_file import OpenFile, ReadonlyError, StaleError
from operad.server.studio.files.recent import RecentFiles
from operad.server.studio.fixes import fix_of, fixes
from operad.server.studio.models import models_json
from operad.server.studio.palette import catalogue
from operad.server.studio.reading import candidates, connectable
from operad.server.studio.requests import number, text

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    from operad.server.http.streams import EventStream
    from operad.server.studio.cases import Tests
    from operad.server.studio.chatting import Chats, model_state
    from operad.server.studio.playground import Playground
    from operad.server.studio.runs.kept import KEPT, KeptRuns
    from operad.server.studio.runs.routes import MAX_FILES, MAX_UPLOAD, Runs
    from operad.server.view.http import application, json_body, json_response, refusal
    from operad.server.view.run_page import KEEP_ALIVE, MOST_STREAMS
except ImportError as error:
    raise MissingExtraError(f"the studio needs the extra `page`: {pip_install('page')}") from error

T = TypeVar("T")

PACE = 0.5
"""Seconds between checks of the open files for outside changes."""

MOST_OPEN = 50
"""Maximum number of open files; if there are more, the one opened first is closed."""

MAX_OPERATIONS = 8 * 2**20
"""Maximum size of a request with operations, in bytes."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_MISSING = "the studio's page is missing from this installation; in a checkout, build it: make studio"


class Studio:
    """The studio of a folder.

    Args:
        histories: Folder of the files' histories and of their runs; None for the user's.
        model: Model of runs and of the chat; None for that of the environment.
        trust: True if files may do what they can, or a function that decides for the `Capabilities` of each.
        services: Function that returns the services of a run of a workflow and of the chat.
        retention: Rule that deletes old runs of a file.

    Attributes:
        app: The application.
    """

    def __init__(
        self,
        folder: Folder,
        histories: Path | None = None,
        *,
        model: Model | None = None,
        trust: Trust = False,
        services: Callable[[], Services] = services_of_environment,
        retention: Retention = KEPT,
    ) -> None:
        self.folder = folder
        self._histories = histories
        self._recent = RecentFiles(histories)
        self._open: dict[str, OpenFile] = {}
        self._opening = Lock()
        self._flushing: dict[str, asyncio.Task[None]] = {}
        self._followers: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self._bundle = Path(str(files("operad.server.studio") / "bundle"))
        self._model = model
        self._services = services
        self._runs = Runs(
            folder, self._find, model, trust, services, KeptRuns(histories, retention), self._notify_runs, histories
        )
        self._tests = Tests(self._find, self._runs, lambda name: self._send({"path": name, "tests": True}))
        chats = Chats(self._find, self._notify, model, services)
        self.app = application(
            Route("/", self._page),
            Route("/assets/{name}", self._asset),
            Route("/data/files", self._files),
            Route("/data/files", self._new, methods=["POST"]),
            Route("/data/catalogue", self._catalogue),
            Route("/data/models", self._models),
            Route("/data/open", self._open_file, methods=["POST"]),
            *(Route(f"/data/{name}", partial(self._edit, work), methods=["POST"]) for name, work in _EDITS.items()),
            *(Route(f"/data/{name}", partial(self._read, work), methods=["POST"]) for name, work in _READS.items()),
            Route("/data/fixes", self._fixes),
            Route("/data/export", self._export),
            Route("/data/changes", self._changes),
            *self._tests.routes,
            *Playground(self._find, self._runs).routes,
            *self._runs.routes,
            *chats.routes,
            handlers=dict.fromkeys((StaleError, ReadonlyError, InvalidError, OperadError), _refused),
        )

    # Background

    async def keep_up(self) -> None:
        """Check open files for outside changes, until cancelled."""
        await asyncio.to_thread(catalogue)  # imports the node types before the first tab needs them
        while True:
            await asyncio.sleep(PACE)
            for file in list(self._open.values()):
                with suppress(OperadError):
                    if await asyncio.to_thread(file.refresh):
                        self._notify(file)

    async def close(self) -> None:
        """End the streams, write the open files, and end the runs."""
        for queue in self._followers:
            queue.put_nowait(None)
        for file in self._open.values():
            with suppress(OperadError):
                await asyncio.to_thread(file.flush)
        await self._tests.close()
        await self._runs.close()

    def _notify(self, file: OpenFile) -> None:
        self._send({"path": file.name, "version": file.version, "disk": file.disk})

    def _notify_runs(self, name: str) -> None:
        self._send({"path": name, "runs": True})

    def _send(self, message: dict[str, Any]) -> None:
        for queue in self._followers:
            queue.put_nowait(message)

    # The page

    async def _page(self, request: Request) -> Response:
        index = self._bundle / "index.html"
        if not index.is_file():
            return refusal(503, _MISSING)
        return Response(index.read_bytes(), media_type="text/html", headers={"content-security-policy": _POLICY})

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        path = self._bundle / "assets" / name
        if name.startswith(".") or "/" in name or "\\" in name or not path.is_file():
            raise HTTPException(404, f"there is no {name[:80]!r}")
        headers = {"cache-control": "private, max-age=31536000, immutable", "content-security-policy": _POLICY}
        kind = "text/javascript" if name.endswith("js") else guess_type(name)[0] or "application/octet-stream"
        return Response(path.read_bytes(), media_type=kind, headers=headers)

    # Files

    async def _files(self, request: Request) -> Response:
        listed = await asyncio.to_thread(self.folder.files)
        model = await asyncio.to_thread(model_state, self._model)
        recent = await asyncio.to_thread(self._recent.rows, self.folder)
        return json_response(
            {
                "folder": str(self.folder.root),
                "files": as_rows(listed),
                "examples": examples(),
                "model": model,
                "recent": recent,
                "limits": {"file": MAX_BYTES, "files": MAX_FILES},
            }
        )

    async def _models(self, request: Request) -> Response:
        return json_response(await asyncio.to_thread(lambda: models_json(self._model, self._services())))

    async def _new(self, request: Request) -> Response:
        body = await json_body(request, MAX_UPLOAD)
        return json_response({"path": await asyncio.to_thread(new_file, self.folder, body)})

    async def _catalogue(self, request: Request) -> Response:
        return json_response(await asyncio.to_thread(catalogue))

    def _find(self, body: dict[str, Any]) -> OpenFile:
        """Return the file that a request names; it is opened if necessary.

        Raises:
            InputError: The request names no file of the folder.
            InvalidError: The file cannot be read.
        """
        path = self.folder.path(text(body, "path"))
        name = self.folder.name(path)
        if self.folder.only is not None and name != self.folder.only and name not in self._open:
            self.folder.only = None  # a second file was requested: list the whole folder from now on
        with self._opening:  # two tabs may request the file at once
            file = self._open.get(name)
            if file is None:
                file = self._open[name] = OpenFile(path, name, self._histories)
                for other in list(self._open)[:-MOST_OPEN]:
                    self._open.pop(other).flush()
            return file

    async def _with_file(self, request: Request, work: Callable[[OpenFile, dict[str, Any]], T]) -> T:
        """Call `work` with the file that a request names, in another thread; tell other tabs if the file changed."""
        body = await json_body(request, MAX_OPERATIONS)

        def run_work() -> tuple[OpenFile, int, T]:
            file = self._find(body)
            before = file.version
            return file, before, work(file, body)

        file, before, result = await asyncio.to_thread(run_work)
        if file.version != before:
            self._notify(file)
        if file.dirty and file.name not in self._flushing:
            self._flushing[file.name] = asyncio.ensure_future(self._flush(file))
        return result

    async def _flush(self, file: OpenFile) -> None:
        """Write the unwritten changes of a file in the background, until there are none."""
        try:
            while file.dirty and file.disk == "same":
                with suppress(OperadError):  # the next change tries again
                    await asyncio.to_thread(file.flush)
                await asyncio.sleep(PACE)
        finally:
            del self._flushing[file.name]

    async def _open_file(self, request: Request) -> Response:
        def opened(file: OpenFile, body: dict[str, Any]) -> dict[str, Any]:
            file.refresh()
            self._recent.note(file.path)
            return document(file)

        return json_response(await self._with_file(request, opened))

    async def _edit(self, work: Callable[[OpenFile, dict[str, Any]], None], request: Request) -> Response:
        def edited(file: OpenFile, body: dict[str, Any]) -> dict[str, Any]:
            work(file, body)
            return document(file)

        return await self._read(edited, request)

    async def _read(self, work: Callable[[OpenFile, dict[str, Any]], dict[str, Any]], request: Request) -> Response:
        return json_response(await self._with_file(request, work))

    async def _fixes(self, request: Request) -> Response:
        def found_fixes() -> dict[str, Any]:
            file = self._find(dict(request.query_params))
            version, content = file.version, file.content
            return {"version": version, "fixes": [fix and fix.what for fix in fixes(content)]}

        return json_response(await asyncio.to_thread(found_fixes))

    async def _export(self, request: Request) -> Response:
        wanted = request.query_params.get("format")

        def exported() -> dict[str, Any]:
            file = self._find(dict(request.query_params))
            file.flush()
            return {"formats": targets(file.content)} if wanted is None else export(file, wanted)

        return json_response(await asyncio.to_thread(exported))

    # Changes by others

    async def _changes(self, request: Request) -> Response:
        if len(self._followers) >= MOST_STREAMS:
            raise HTTPException(503, f"{MOST_STREAMS} tabs are open already; close one")
        return EventStream(self._messages(), KEEP_ALIVE)

    async def _messages(self) -> AsyncGenerator[bytes, None]:
        queue = asyncio.Queue[dict[str, Any] | None]()
        self._followers.add(queue)
        try:
            yield b": \n\n"
            while (message := await queue.get()) is not None:
                yield f"data: {to_json(message)}\n\n".encode()
        finally:
            self._followers.discard(queue)


def _apply_fix(file: OpenFile, body: dict[str, Any]) -> None:
    fix = fix_of(file.content, number(body, "issue"))
    file.replace(number(body, "version"), fix.graph, f"Fix: {fix.what}", "edit")


def _connectable(file: OpenFile, body: dict[str, Any]) -> dict[str, Any]:
    graph, source = file.content.graph, text(body, "source")
    if file.content.format is None:
        return {"targets": experts.connectable(graph, source)}
    return {"targets": connectable(graph, source, number(body, "port", 0))}


def _compared(file: OpenFile, body: dict[str, Any]) -> dict[str, Any]:
    return changes_json(difference(file.at(number(body, "from")), file.at(number(body, "to"))))


_EDITS: dict[str, Callable[[OpenFile, dict[str, Any]], None]] = {
    "apply": lambda file, body: file.apply(number(body, "version"), read_operations(body.get("operations"))),
    "undo": lambda file, body: file.undo(number(body, "version")),
    "redo": lambda file, body: file.redo(number(body, "version")),
    "goto": lambda file, body: file.goto(number(body, "version"), number(body, "step")),
    "name": lambda file, body: file.history.name(number(body, "step"), " ".join(text(body, "name").split())),
    "restore": lambda file, _: file.restore(),
    "fix": _apply_fix,
}
"""Changes of a file, by the name of their request; the answer is the file as it is then."""

_READS: dict[str, Callable[[OpenFile, dict[str, Any]], dict[str, Any]]] = {
    "compare": _compared,
    "candidates": lambda file, body: {"variables": candidates(file.content.graph, text(body, "node"))},
    "connectable": _connectable,
}


async def _refused(request: Request, error: Exception) -> Response:
    """Return an error as JSON: with its issues, or with the current file for a tab whose change came too late."""
    answer: dict[str, Any] = {"error": str(error), "issues": []}
    if isinstance(error, StaleError):
        return JSONResponse(answer | {"document": await asyncio.to_thread(document, error.file)}, 409)
    if not isinstance(error, InvalidError):
        return JSONResponse(answer, 409 if isinstance(error, ReadonlyError) else 400)
    issues = error.issues
    answer["issues"] = [
        {
            "code": issue.code,
            "what": issue.message,
            "where": issue.where,
            "node": None,
            "field": None,
            "severity": "error",
        }
        for issue in issues[:100]
    ]
    first = f"{issues[0].where}: {issues[0].message}".strip(": ") if len(issues) == 1 else str(error).splitlines()[0]
    return JSONResponse(answer | {"error": first}, 422)
